//! One small way to speak to the SQL engines: statements, values, transactions, migrations.
