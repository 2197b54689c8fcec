//! The way to the collector: batches on a thread of their own, dropped rather than waited for.

use std::{sync::Mutex, time::Duration};

use anyhow::Context;
use opentelemetry::KeyValue;
use opentelemetry_otlp::{WithExportConfig, WithTonicConfig};
use opentelemetry_sdk::{
    Resource,
    error::OTelSdkResult,
    trace::{Sampler, SdkTracerProvider, SpanData, SpanExporter},
};
use tonic::transport::ClientTlsConfig;

/// How long a batch may take to be sent, all attempts together.
const SENT_WITHIN: Duration = Duration::from_secs(3);

pub(super) fn to_collector(endpoint: &str, node: &str) -> anyhow::Result<SdkTracerProvider> {
    let mut builder = opentelemetry_otlp::SpanExporter::builder()
        .with_tonic()
        .with_endpoint(endpoint)
        .with_timeout(SENT_WITHIN);
    if endpoint.starts_with("https:") {
        builder = builder.with_tls_config(ClientTlsConfig::new().with_native_roots());
    }
    let exporter = builder.build().context("trace.otlp_endpoint cannot be used")?;
    let resource = Resource::builder()
        .with_service_name("keymill")
        .with_attribute(KeyValue::new("service.version", crate::VERSION))
        .with_attribute(KeyValue::new("service.instance.id", node.to_owned()))
        .build();
    let exporter = Reporting { inner: exporter, endpoint: endpoint.to_owned(), complained: Mutex::default() };
    // Nothing is made that is not followed: that was decided before.
    Ok(SdkTracerProvider::builder()
        .with_sampler(Sampler::AlwaysOn)
        .with_resource(resource)
        .with_batch_exporter(exporter)
        .build())
}

/// Says when spans cannot be sent, and when they can again, once each.
#[derive(Debug)]
struct Reporting<E> {
    inner: E,
    endpoint: String,
    complained: Mutex<bool>,
}

impl<E> Reporting<E> {
    fn report(&self, sent: &OTelSdkResult) {
        let Self { endpoint, complained, .. } = self;
        let mut complained = complained.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        match sent {
            Ok(()) if *complained => {
                tracing::info!(endpoint, "traces reach {endpoint} again");
            }
            Err(error) if !*complained => {
                tracing::warn!(
                    endpoint,
                    %error,
                    "traces do not reach {endpoint} and are dropped until they do: {error}"
                );
            }
            _ => {}
        }
        *complained = sent.is_err();
    }
}

impl<E: SpanExporter> SpanExporter for Reporting<E> {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let sent = self.inner.export(batch).await;
        self.report(&sent);
        sent
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.inner.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.inner.set_resource(resource);
    }
}
