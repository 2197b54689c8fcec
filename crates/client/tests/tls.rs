//! TLS as the SDK speaks it: whom it trusts, and how it shows who it is.
//!
//! The server here has certificates and no calls: a refusal that says so means that the handshake went well.

use std::{fs, net::SocketAddr, time::Duration};

use keymill_client::{Client, ClientBuilder, Error};
use keymill_engines::certificates::Certificates;
use tokio::net::TcpListener;
use tonic::{
    service::Routes,
    transport::{Certificate, Identity, Server, ServerTlsConfig, server::TcpIncoming},
};

/// Serves nothing, to those whose certificate the authority vouches for.
async fn serve(certificates: &Certificates) -> SocketAddr {
    let read = |name| fs::read(certificates.file(name)).unwrap();
    let tls = ServerTlsConfig::new()
        .identity(Identity::from_pem(read("server.pem"), read("server.key")))
        .client_ca_root(Certificate::from_pem(read("ca.pem")));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = Server::builder().tls_config(tls).unwrap().add_routes(Routes::default());
    tokio::spawn(server.serve_with_incoming(TcpIncoming::from(listener)));
    address
}

fn trusting(address: SocketAddr, certificates: &Certificates) -> ClientBuilder {
    Client::builder()
        .endpoints([format!("https://{address}")])
        .tls_ca(fs::read(certificates.file("ca.pem")).unwrap())
        .deadline(Duration::from_secs(2))
}

fn identified(builder: ClientBuilder, certificates: &Certificates) -> ClientBuilder {
    let read = |name| fs::read(certificates.file(name)).unwrap();
    builder.tls_identity(read("client.pem"), read("client.key"))
}

async fn answer(builder: ClientBuilder) -> Error {
    builder.build().unwrap().keyspace("links").unwrap().take_many(1).await.unwrap_err()
}

#[tokio::test]
async fn a_server_and_a_client_that_show_good_certificates_talk_and_others_do_not() {
    let (ours, other) = (Certificates::make().unwrap(), Certificates::make().unwrap());
    let address = serve(&ours).await;
    let spoken = answer(identified(trusting(address, &ours), &ours)).await;
    let Error::Refused(failure) = &spoken else { panic!("{spoken:?}") };
    assert_eq!(failure.status, tonic::Code::Unimplemented, "{spoken}");

    for stranger in [
        identified(trusting(address, &other), &ours),
        identified(trusting(address, &ours), &other),
        trusting(address, &ours),
        Client::builder().endpoints([format!("http://{address}")]).deadline(Duration::from_secs(2)),
    ] {
        let error = answer(stranger).await;
        assert!(matches!(error, Error::Unanswered { .. }), "{error:?}");
    }
}
