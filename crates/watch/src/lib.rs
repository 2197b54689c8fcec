//! Checks judge levels, findings say what is wrong, sinks tell someone.
