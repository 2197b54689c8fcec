//! TLS on every port of the real binary: who is let in, and certificates that change while it runs.

use std::{
    fs,
    io::{self, Read, Write},
    net::{SocketAddr, TcpStream},
    path::{Path, PathBuf},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use keymill_api::grpc::{TakeRequest, keymill_client::KeymillClient};
use keymill_client::{Client, ClientBuilder, Error};
use keymill_engines::certificates::Certificates;
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned,
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Identity};

mod harness;
use harness::{Home, Launch, PATIENCE, Server};

type Secure = StreamOwned<ClientConnection, TcpStream>;

/// The server's certificate and key under names of the test's own, so that they can be replaced.
fn install(home: &Home, from: &Certificates) -> (PathBuf, PathBuf) {
    let (cert, key) = (home.path().join("cert.pem"), home.path().join("key.pem"));
    // As renewals are done: written beside, then put in place whole.
    for (name, to) in [("server.pem", &cert), ("server.key", &key)] {
        let beside = to.with_extension("new");
        fs::copy(from.file(name), &beside).unwrap();
        fs::rename(beside, to).unwrap();
    }
    (cert, key)
}

fn launch(home: &Home, certificates: &Certificates) -> Launch {
    let (cert, key) = install(home, certificates);
    home.server()
        .environment("KEYMILL_LISTEN__TLS_CERT", cert.to_str().unwrap())
        .environment("KEYMILL_LISTEN__TLS_KEY", key.to_str().unwrap())
}

/// Whom a caller trusts and what it shows.
fn caller(trusts: &Certificates, shows: Option<&Certificates>) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(trusts.file("ca.pem")).unwrap()).unwrap();
    let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().unwrap().with_root_certificates(roots);
    Arc::new(match shows {
        None => builder.with_no_client_auth(),
        Some(ours) => {
            let chain = vec![CertificateDer::from_pem_file(ours.file("client.pem")).unwrap()];
            let key = PrivateKeyDer::from_pem_file(ours.file("client.key")).unwrap();
            builder.with_client_auth_cert(chain, key).unwrap()
        }
    })
}

fn connect(address: SocketAddr, caller: &Arc<ClientConfig>) -> io::Result<Secure> {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let name = "127.0.0.1".try_into().unwrap();
    let mut session = ClientConnection::new(caller.clone(), name).map_err(io::Error::other)?;
    while session.is_handshaking() {
        session.complete_io(&mut stream)?;
    }
    Ok(StreamOwned::new(session, stream))
}

/// One request on a connection that stays open; the status of its answer.
fn get(stream: &mut Secure, path: &str) -> io::Result<u16> {
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: test\r\n\r\n").as_bytes())?;
    let mut answer = Vec::new();
    let whole = |answer: &[u8]| {
        let text = String::from_utf8_lossy(answer).to_ascii_lowercase();
        let (head, body) = text.split_once("\r\n\r\n")?;
        let length = head.split("content-length: ").nth(1)?.split("\r\n").next()?.parse::<usize>().ok()?;
        (body.len() >= length).then(|| head["http/1.1 ".len()..][..3].parse().unwrap())
    };
    loop {
        if let Some(status) = whole(&answer) {
            return Ok(status);
        }
        let mut some = [0; 4096];
        match stream.read(&mut some)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => answer.extend_from_slice(&some[..count]),
        }
    }
}

/// Waits until it serves keys.
#[track_caller]
fn until_ready(server: &Server, caller: &Arc<ClientConfig>) -> Secure {
    let mut stream = connect(server.address, caller).expect("it shakes hands");
    let deadline = Instant::now() + PATIENCE;
    while get(&mut stream, "/readyz").unwrap() != 200 {
        assert!(Instant::now() < deadline, "it is not ready: {}", server.log());
        thread::sleep(Duration::from_millis(10));
    }
    stream
}

fn run<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(3 * PATIENCE, test).await.expect("it came to an end") })
}

async fn grpc(server: &Server, tls: ClientTlsConfig) -> Result<usize, Box<dyn std::error::Error>> {
    let address = format!("https://{}", server.address);
    let channel = Channel::from_shared(address)?.tls_config(tls)?.connect().await?;
    let asked = TakeRequest { keyspace: "links".to_owned(), count: 3 };
    Ok(KeymillClient::new(channel).take(asked).await?.into_inner().keys.len())
}

fn pem(path: &Path) -> Vec<u8> {
    fs::read(path).unwrap()
}

#[test]
fn every_port_speaks_tls_and_nothing_else() {
    let (home, certificates) = (Home::new(), Certificates::make().unwrap());
    let server = launch(&home, &certificates).start_unready();
    let caller = caller(&certificates, None);
    until_ready(&server, &caller);
    server.said(&format!("https://{}", server.address));

    let mut plain = harness::Connection::open(server.address).unwrap();
    assert!(plain.ask("GET", "/healthz", None).is_err(), "nothing is said in the clear");
    let tls = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(pem(&certificates.file("ca.pem"))));
    assert_eq!(run(grpc(&server, tls)).unwrap(), 3);

    // Far more than one read holds, so that answers depend on what was deciphered ahead.
    const POPS: usize = 20_000;
    const AT_ONCE: usize = 2_000;
    let mut redis = connect(server.resp.unwrap(), &caller).unwrap();
    let writer = "*2\r\n$4\r\nLPOP\r\n$5\r\nlinks\r\n".repeat(AT_ONCE);
    let mut keys = std::collections::HashSet::new();
    let (mut got, mut some) = (Vec::new(), [0; 16 << 10]);
    for _ in 0..POPS / AT_ONCE {
        redis.write_all(writer.as_bytes()).unwrap();
        while got.len() < AT_ONCE * b"$7\r\naaaaaaa\r\n".len() {
            let count = redis.read(&mut some).unwrap();
            assert!(count > 0, "it ended: {}", server.log());
            got.extend_from_slice(&some[..count]);
        }
        keys.extend(String::from_utf8(std::mem::take(&mut got)).unwrap().split("\r\n").map(str::to_owned));
    }
    assert_eq!(keys.len(), POPS + 2, "each key once, and the lengths");

    let (url, ca) = (format!("https://{}", server.address), certificates.file("ca.pem"));
    let take = |arguments: &[&str]| {
        let mut all = vec!["take", "links", "--server", &url];
        all.extend(arguments);
        home.run(&all)
    };
    assert_eq!(take(&["--tls-ca", ca.to_str().unwrap()]).ok().trim().len(), 7);
    let stranger = take(&[]);
    assert_eq!(stranger.code, Some(1), "an authority nobody knows is not trusted: {stranger:?}");
    assert!(stranger.stderr.contains("--tls-ca"), "{stranger:?}");
    let plain = home.run(&["take", "links", "--server", &format!("http://{}", server.address)]);
    assert!(plain.code == Some(1) && plain.stderr.contains("https://"), "{plain:?}");
    server.terminate();
}

#[test]
fn a_caller_without_the_right_certificate_is_refused() {
    let (home, ours, theirs) = (Home::new(), Certificates::make().unwrap(), Certificates::make().unwrap());
    let ca = ours.file("ca.pem");
    let server = launch(&home, &ours)
        .environment("KEYMILL_LISTEN__TLS_CLIENT_CA", ca.to_str().unwrap())
        .start_unready();
    let friend = caller(&ours, Some(&ours));
    until_ready(&server, &friend);
    let pops = |address, caller: &Arc<ClientConfig>| -> io::Result<bool> {
        let mut stream = connect(address, caller)?;
        stream.write_all(b"*1\r\n$4\r\nPING\r\n")?;
        let mut answer = [0; 7];
        stream.read_exact(&mut answer)?;
        Ok(&answer == b"+PONG\r\n")
    };
    assert!(pops(server.resp.unwrap(), &friend).unwrap());
    for stranger in [caller(&ours, None), caller(&ours, Some(&theirs))] {
        let asked = connect(server.address, &stranger).and_then(|mut stream| get(&mut stream, "/healthz"));
        assert!(asked.is_err(), "{asked:?}");
        assert!(pops(server.resp.unwrap(), &stranger).is_err());
    }
    let trusting = || ClientTlsConfig::new().ca_certificate(Certificate::from_pem(pem(&ca)));
    let identity =
        |of: &Certificates| Identity::from_pem(pem(&of.file("client.pem")), pem(&of.file("client.key")));
    assert_eq!(run(grpc(&server, trusting().identity(identity(&ours)))).unwrap(), 3);
    assert!(run(grpc(&server, trusting().identity(identity(&theirs)))).is_err());
    assert!(run(grpc(&server, trusting())).is_err());
    let url = format!("https://{}", server.address);
    let files =
        ["ca.pem", "client.pem", "client.key"].map(|name| ours.file(name).to_str().unwrap().to_owned());
    let [ca, cert, key] = &files;
    let shown = ["take", "links", "--server", &url, "--tls-ca", ca, "--tls-cert", cert, "--tls-key", key];
    home.run(&shown).ok();
}

#[test]
fn a_renewed_certificate_is_served_and_no_connection_is_dropped() {
    let (home, old, new) = (Home::new(), Certificates::make().unwrap(), Certificates::make().unwrap());
    let server = launch(&home, &old).start_unready();
    let (knows_old, knows_new) = (caller(&old, None), caller(&new, None));
    let mut kept = until_ready(&server, &knows_old);
    let mut redis = connect(server.resp.unwrap(), &knows_old).unwrap();
    assert!(connect(server.address, &knows_new).is_err(), "not yet");

    // Half of a renewal is no renewal: the old key, half a file, no file.
    let cert = home.path().join("cert.pem");
    let whole = fs::read(new.file("server.pem")).unwrap();
    for (half, complaint) in [
        (Some(&whole[..]), "do not belong together"),
        (Some(&whole[..whole.len() / 2]), "is not PEM"),
        (Some(b"".as_slice()), "holds no certificate"),
        (None, "cannot be read"),
    ] {
        half.map_or_else(|| fs::remove_file(&cert), |half| fs::write(&cert, half)).unwrap();
        server.logged(complaint);
        assert!(server.log().contains("the certificates are left as they are"));
        connect(server.address, &knows_old).unwrap();
    }

    install(&home, &new);
    let deadline = Instant::now() + PATIENCE;
    while connect(server.address, &knows_new).is_err() {
        assert!(Instant::now() < deadline, "the new certificate is not served: {}", server.log());
        thread::sleep(Duration::from_millis(50));
    }
    connect(server.resp.unwrap(), &knows_new).unwrap();
    assert!(connect(server.address, &knows_old).is_err(), "the old one is gone");
    assert_eq!(get(&mut kept, "/healthz").unwrap(), 200, "but not for whoever was here before");
    redis.write_all(b"PING\r\n").unwrap();
    let mut answer = [0; 7];
    redis.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"+PONG\r\n");
}

#[test]
fn other_authorities_are_trusted_as_soon_as_the_file_names_them() {
    let (home, ours, theirs) = (Home::new(), Certificates::make().unwrap(), Certificates::make().unwrap());
    let trusted = home.path().join("clients.pem");
    fs::copy(ours.file("ca.pem"), &trusted).unwrap();
    let server = launch(&home, &ours)
        .environment("KEYMILL_LISTEN__TLS_CLIENT_CA", trusted.to_str().unwrap())
        .start_unready();
    let (old, new) = (caller(&ours, Some(&ours)), caller(&ours, Some(&theirs)));
    let mut kept = until_ready(&server, &old);
    let asks = |caller| connect(server.address, caller).and_then(|mut stream| get(&mut stream, "/healthz"));
    assert!(asks(&new).is_err());
    fs::copy(theirs.file("ca.pem"), &trusted).unwrap();
    let deadline = Instant::now() + PATIENCE;
    while asks(&new).is_err() {
        assert!(Instant::now() < deadline, "the new authority is not trusted: {}", server.log());
        thread::sleep(Duration::from_millis(50));
    }
    assert!(asks(&old).is_err(), "the old one is not any more");
    assert_eq!(get(&mut kept, "/healthz").unwrap(), 200, "but not for whoever was here before");
}

#[test]
fn a_certificate_whose_time_is_over_is_good_for_nobody() {
    let (home, ours) = (Home::new(), Certificates::make().unwrap());
    let ca = ours.file("ca.pem");
    let server = launch(&home, &ours)
        .environment("KEYMILL_LISTEN__TLS_CLIENT_CA", ca.to_str().unwrap())
        .start_unready();
    until_ready(&server, &caller(&ours, Some(&ours)));
    let files =
        ["ca.pem", "client.pem", "client.key"].map(|name| ours.file(name).to_str().unwrap().to_owned());
    let [ca, cert, key] = &files;
    let url = format!("https://{}", server.address);
    let take = || {
        home.run(&["take", "links", "--server", &url, "--tls-ca", ca, "--tls-cert", cert, "--tls-key", key])
    };
    take().ok();
    ours.expire("client").unwrap();
    assert!(take().code == Some(1), "a caller's");
    server.terminate();

    ours.expire("server").unwrap();
    let server = launch(&home, &ours).start_unready();
    let url = format!("https://{}", server.address);
    let refused = home.run(&["take", "links", "--server", &url, "--tls-ca", ca]);
    assert!(refused.code == Some(1) && refused.stderr.contains("expired"), "{refused:?}");
    run(async {
        let error = sdk(&server, &ours).build().unwrap().keyspace("links").unwrap().take().await.unwrap_err();
        assert!(error.to_string().contains("expired"), "{error}");
    });
}

/// The SDK, for a server whose authority we know.
fn sdk(server: &Server, certificates: &Certificates) -> ClientBuilder {
    Client::builder()
        .endpoints([format!("https://{}", server.address)])
        .tls_ca(pem(&certificates.file("ca.pem")))
        .deadline(Duration::from_secs(3))
}

fn identified(builder: ClientBuilder, certificates: &Certificates) -> ClientBuilder {
    builder.tls_identity(pem(&certificates.file("client.pem")), pem(&certificates.file("client.key")))
}

#[test]
fn the_sdk_takes_keys_and_makes_ids_over_tls() {
    let (home, ours, theirs) = (Home::new(), Certificates::make().unwrap(), Certificates::make().unwrap());
    let data = home.data();
    let token = ["token", "create", "--name", "app", "--scope", "take", "--data-dir", data.to_str().unwrap()];
    let token = home.run(&token).ok().trim().to_owned();
    let server = launch(&home, &ours).environment("KEYMILL_AUTH__MODE", "on").start_unready();
    until_ready(&server, &caller(&ours, None));
    // The Redis protocol asks for the token inside of TLS, too.
    let mut redis = connect(server.resp.unwrap(), &caller(&ours, None)).unwrap();
    for (asked, answer) in
        [("LPOP links", "-NOAUTH"), (&format!("AUTH {token}"), "+OK"), ("LPOP links", "$7")]
    {
        redis.write_all(format!("{asked}\r\n").as_bytes()).unwrap();
        let mut line = vec![0; answer.len()];
        redis.read_exact(&mut line).unwrap();
        assert_eq!(String::from_utf8_lossy(&line), answer);
        while line.last() != Some(&b'\n') || (answer == "$7" && line.len() < "$7\r\naaaaaaa\r\n".len()) {
            let mut one = [0];
            redis.read_exact(&mut one).unwrap();
            line.push(one[0]);
        }
    }
    run(async {
        let client = sdk(&server, &ours).token(&token).build().unwrap();
        let links = client.keyspace("links").unwrap();
        let mut keys = links.take_many(3000).await.unwrap();
        for _ in 0..1000 {
            keys.push(links.take().await.unwrap());
        }
        assert_eq!(keys.iter().collect::<std::collections::HashSet<_>>().len(), 4000, "a key came twice");
        let events = client.snowflake("events").await.unwrap();
        let ids = events.next_ids(1000).await.unwrap();
        assert!(ids.is_sorted() && events.next_id().await.unwrap() > ids[999]);
        client.close().await.unwrap();

        let answer = async |builder: ClientBuilder| {
            let client = builder.build().unwrap();
            client.keyspace("links").unwrap().take().await.unwrap_err()
        };
        let nobody = answer(sdk(&server, &ours)).await;
        assert_eq!(nobody.code(), Some(keymill_client::Code::Unauthenticated), "{nobody}");
        let stranger = answer(sdk(&server, &theirs).token(&token)).await;
        assert!(stranger.to_string().contains("tls_ca"), "{stranger}");
        let plain = answer(sdk(&server, &ours).endpoints([format!("http://{}", server.address)])).await;
        assert!(plain.to_string().contains("https://"), "{plain}");
    });
}

#[test]
fn the_sdk_shows_its_certificate_where_one_is_asked_for() {
    let (home, ours, theirs) = (Home::new(), Certificates::make().unwrap(), Certificates::make().unwrap());
    let ca = ours.file("ca.pem");
    let server = launch(&home, &ours)
        .environment("KEYMILL_LISTEN__TLS_CLIENT_CA", ca.to_str().unwrap())
        .start_unready();
    until_ready(&server, &caller(&ours, Some(&ours)));

    let client = identified(sdk(&server, &ours), &ours).build_blocking().unwrap();
    let (links, events) = (client.keyspace("links").unwrap(), client.snowflake("events").unwrap());
    let keys = links.take_many(100).unwrap();
    assert!(!keys.contains(&links.take().unwrap()));
    assert_eq!(events.next_ids(100).unwrap().len(), 100);
    client.close().unwrap();

    for stranger in [sdk(&server, &ours), identified(sdk(&server, &ours), &theirs)] {
        let client = stranger.build_blocking().unwrap();
        let error = client.keyspace("links").unwrap().take().unwrap_err();
        assert!(matches!(error, Error::Unanswered { .. }), "{error:?}");
        assert!(error.to_string().contains("tls_identity"), "{error}");
    }
    let (cert, key) = (pem(&ours.file("client.pem")), pem(&theirs.file("client.key")));
    let wrong = sdk(&server, &ours).tls_identity(cert, key).build_blocking().unwrap_err();
    assert!(matches!(&wrong, Error::Settings { setting: "tls_identity", .. }), "{wrong:?}");
    assert!(wrong.to_string().contains("belong together"), "{wrong}");
}

#[test]
fn a_peer_is_asked_by_https_and_needs_no_token() {
    let (here, there) = (Home::new(), Home::new());
    let (ours, theirs) = (Certificates::make().unwrap(), Certificates::make().unwrap());
    there.write("keymill.toml", "[ledger]\nregion = 3\n");
    let data = there.data();
    let token = ["token", "create", "--name", "x", "--scope", "take", "--data-dir", data.to_str().unwrap()];
    there.run(&token).ok();
    let (our_ca, their_ca) = (ours.file("ca.pem"), theirs.file("ca.pem"));
    let peer = launch(&there, &theirs)
        .environment("KEYMILL_LISTEN__TLS_CLIENT_CA", our_ca.to_str().unwrap())
        .environment("KEYMILL_AUTH__MODE", "on")
        .start_unready();
    until_ready(&peer, &caller(&theirs, Some(&ours)));
    let config = |region: u16, ca: &Path| {
        let peers = format!("peers = [\"https://{}\"]\npeers_ca = {ca:?}\n", peer.address);
        here.write("keymill.toml", &format!("[ledger]\nregion = {region}\n{peers}"));
    };
    // It is shown the certificate that we serve with.
    config(3, &their_ca);
    let refused = launch(&here, &ours).run();
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.stderr.contains("region 3 is in use by the ledger behind https://"), "{refused:?}");
    config(4, &their_ca);
    launch(&here, &ours).start_unready().terminate();

    // One that cannot be trusted, or does not trust us, is one that does not answer.
    config(4, &our_ca);
    launch(&here, &ours).start_unready().logged("could not be asked for its region");
    config(4, &their_ca);
    here.server().start().logged("could not be asked for its region");

    config(4, Path::new("/nowhere/ca.pem"));
    let refused = here.server().run();
    assert!(refused.code == Some(1) && refused.stderr.contains("ledger.peers_ca"), "{refused:?}");
    here.write("keymill.toml", "[ledger]\nregion = 4\npeers = [\"https://token@127.0.0.1:1\"]\n");
    let refused = here.server().run();
    assert!(refused.code == Some(1) && refused.stderr.contains("ledger.peers"), "{refused:?}");
}

#[test]
fn whoever_does_not_shake_hands_is_given_up() {
    let (home, certificates) = (Home::new(), Certificates::make().unwrap());
    let launch = launch(&home, &certificates).environment("KEYMILL_LIMITS__REQUEST_TIMEOUT", "500ms");
    let server = launch.start_unready();
    for address in [server.address, server.resp.unwrap()] {
        let mut silent = TcpStream::connect(address).unwrap();
        silent.set_read_timeout(Some(PATIENCE)).unwrap();
        assert_eq!(silent.read(&mut [0]).unwrap(), 0, "it was closed");
    }
}

#[test]
fn certificates_that_cannot_be_meant_name_their_setting() {
    let (home, certificates) = (Home::new(), Certificates::make().unwrap());
    let (cert, key) = install(&home, &certificates);
    let (cert, key) = (cert.to_str().unwrap(), key.to_str().unwrap());
    let (cert_is, key_is) = ("KEYMILL_LISTEN__TLS_CERT", "KEYMILL_LISTEN__TLS_KEY");
    for (settings, named) in [
        (vec![(cert_is, cert)], "listen.tls_key"),
        (vec![(key_is, key)], "listen.tls_cert"),
        (vec![("KEYMILL_LISTEN__TLS_CLIENT_CA", cert)], "listen.tls_cert"),
        (vec![(cert_is, "/nowhere"), (key_is, key)], "listen.tls_cert"),
        (vec![(cert_is, cert), (key_is, cert)], "listen.tls_key"),
        (vec![(cert_is, key), (key_is, key)], "listen.tls_cert"),
    ] {
        let launch =
            settings.iter().fold(home.server(), |launch, (name, value)| launch.environment(name, value));
        let refused = launch.run();
        assert_eq!(refused.code, Some(1), "{settings:?} {refused:?}");
        assert!(refused.stderr.contains(named), "{settings:?} {refused:?}");
    }
}
