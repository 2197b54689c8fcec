//! Where traces go, and how many requests are followed.

use serde::{Deserialize, Serialize};

use super::{Config, ConfigError, is_origin};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TraceConfig {
    pub otlp_endpoint: String,
    pub sample_ratio: f64,
}

impl Default for TraceConfig {
    fn default() -> Self {
        Self { otlp_endpoint: String::new(), sample_ratio: 0.01 }
    }
}

impl Config {
    pub(super) fn check_trace(&self) -> Result<(), ConfigError> {
        let wrong = |setting: &str, problem: String| {
            Err(ConfigError::Contradiction { setting: setting.to_owned(), problem })
        };
        let TraceConfig { otlp_endpoint, sample_ratio } = &self.trace;
        if !otlp_endpoint.is_empty() && !is_origin(otlp_endpoint) {
            // Not repeated: a password may be what is wrong with it.
            let problem = "is not http://HOST:PORT or https://HOST:PORT, such as http://127.0.0.1:4317, where a \
                           collector takes OTLP by gRPC";
            return wrong("trace.otlp_endpoint", problem.to_owned());
        }
        if !(0.0..=1.0).contains(sample_ratio) {
            let problem = format!("is {sample_ratio}, and must be from 0 (none) to 1 (every request)");
            return wrong("trace.sample_ratio", problem);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_a_collector_or_a_ratio_is_refused() {
        let check = |otlp_endpoint: &str, sample_ratio| {
            let trace = TraceConfig { otlp_endpoint: otlp_endpoint.to_owned(), sample_ratio };
            Config { trace, ..Config::default() }.check().map_err(|error| error.to_string())
        };
        for endpoint in ["", "http://127.0.0.1:4317", "https://collector.example:4317/"] {
            assert_eq!(check(endpoint, 0.5), Ok(()), "{endpoint}");
        }
        for endpoint in
            ["127.0.0.1:4317", "grpc://x:4317", "http://x:4318/v1/traces", "http://u:s3cret@x:4317"]
        {
            let error = check(endpoint, 0.5).unwrap_err();
            assert!(error.starts_with("trace.otlp_endpoint is not http://HOST:PORT"), "{error}");
            assert!(!error.contains("s3cret"), "{error}");
        }
        for ratio in [-0.1, 1.1, f64::NAN] {
            let error = check("", ratio).unwrap_err();
            assert!(error.contains("trace.sample_ratio") && error.contains("from 0 (none)"), "{error}");
        }
    }
}
