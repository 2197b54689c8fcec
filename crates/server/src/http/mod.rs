//! The HTTP front end: parses, asks, answers. It knows no store.
//!
//! Taking keys is recognised before the router is asked, because it is nearly all of the traffic; gRPC, which
//! shares the port, has its own way; everything else goes through the router.

use std::{
    convert::Infallible,
    future::Future,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    pin::Pin,
    sync::Arc,
};

use axum::{
    Router,
    extract::Request,
    response::IntoResponse,
    routing::{any, delete, get, post},
};
use hyper::{HeaderMap, Method, Response, body::Incoming};
use keymill_api::{Code, Refusal};
use keymill_issuer::Node;
use keymill_watch::Board;
use tokio::sync::{Semaphore, SemaphorePermit};
use tower::ServiceExt;

use crate::{
    auth::{Caller, Guard, Right, need},
    config::Config,
    grpc::{self, Grpc},
    measures::Measures,
    names::Names,
    observers::Observers,
    reload::Readings,
    trace::Traces,
};

mod answer;
mod body;
mod dashboard;
mod decode;
mod docs;
mod history;
mod incidents;
mod issued;
mod keyspaces;
mod ledger;
mod links;
pub(crate) mod listen;
mod metrics;
pub mod openapi;
mod path;
mod query;
mod readiness;
mod redirect;
mod rows;
pub(crate) mod status;
mod stream;
mod take;
mod tokens;
mod traced;

use answer::{Body, Refused};
use path::Path;

/// What handlers need.
#[derive(Debug)]
pub(crate) struct State {
    pub node: Arc<Node>,
    pub names: Arc<Names>,
    pub config: Config,
    pub measures: Arc<Measures>,
    pub guard: Arc<Guard>,
    /// What the watcher found.
    pub board: Arc<Board>,
    traces: Option<Arc<Traces>>,
    readings: Arc<Readings>,
    stage: stream::Stage,
    /// Where dangerous calls are answered, if not everywhere.
    admin: Option<SocketAddr>,
    /// Places for requests that wait for the ledger: a stuck one must not collect them without bound.
    desk: Semaphore,
    /// The same for names, links and references, which whole applications ask for.
    names_desk: Semaphore,
}

impl State {
    pub(crate) fn new(
        node: Arc<Node>,
        names: Arc<Names>,
        config: Config,
        guard: Arc<Guard>,
        observers: Observers,
        admin: Option<SocketAddr>,
    ) -> Self {
        let places = |most: usize| Semaphore::new(most.min(Semaphore::MAX_PERMITS));
        let (desk, names_desk) = (places(config.limits.admin_requests), places(config.limits.name_requests));
        let stage = stream::Stage::default();
        let Observers { board, measures, traces, readings } = observers;
        Self { node, names, config, measures, guard, board, traces, readings, stage, admin, desk, names_desk }
    }

    /// Requests that hold a place, at the ledger's desk and at that for names.
    fn under_way(&self) -> [usize; 2] {
        let limits = &self.config.limits;
        [(&self.desk, limits.admin_requests), (&self.names_desk, limits.name_requests)]
            .map(|(desk, places)| places.saturating_sub(desk.available_permits()))
    }

    /// A place for a request that may wait for the ledger; the others need none.
    fn enter(&self, method: &Method, path: &str) -> Result<Option<SemaphorePermit<'_>>, Refusal> {
        if !path.starts_with("/v1/") {
            return Ok(None);
        }
        let (desk, limit) = if is_about_names(method, path) {
            (&self.names_desk, "limits.name_requests")
        } else {
            (&self.desk, "limits.admin_requests")
        };
        let full = |_| {
            let detail = format!("{limit} are under way; taking keys is not affected, try again in a moment");
            Refusal::new(Code::Overloaded, detail)
        };
        desk.try_acquire().map(Some).map_err(full)
    }
}

/// Which listener a request came in by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Door {
    Front,
    /// Dangerous calls are answered here alone, where there is such a listener.
    Admin,
}

/// Everything that answers, in one value that can be cloned for each connection.
#[derive(Debug, Clone)]
pub(crate) struct App {
    state: Arc<State>,
    ways: Arc<Ways>,
    door: Door,
    /// Who is at the other end of the connection.
    from: IpAddr,
}

/// Where requests go that take no keys over HTTP.
#[derive(Debug)]
struct Ways {
    router: Router,
    grpc: Grpc,
}

impl App {
    pub(crate) fn new(state: Arc<State>) -> Self {
        let ways = Ways { router: router(state.clone()), grpc: Grpc::new(state.clone()) };
        Self { state, ways: Arc::new(ways), door: Door::Front, from: Ipv4Addr::UNSPECIFIED.into() }
    }

    pub(crate) fn measures(&self) -> &Measures {
        &self.state.measures
    }

    /// The same behind the admin listener.
    pub(crate) fn for_admins(&self) -> Self {
        Self { door: Door::Admin, ..self.clone() }
    }

    /// The same for one connection.
    pub(crate) fn from(&self, from: IpAddr) -> Self {
        Self { from, ..self.clone() }
    }

    /// Who asks, if they may ask that here at all. Keyspaces that are named elsewhere than in the path are for
    /// handlers to look at.
    fn admit(&self, method: &Method, path: &str, headers: &HeaderMap) -> Result<Caller, Refusal> {
        let State { guard, admin, .. } = &*self.state;
        if !guard.is_on() && admin.is_none() {
            return Ok(Caller::ANYONE);
        }
        let need = need(method, path);
        let caller = match need.right {
            Right::Nothing => return Ok(Caller::ANYONE),
            Right::One(scope) => {
                let caller = guard.bearer(headers)?;
                caller.refuse_unless(scope)?;
                caller
            }
            Right::OverAll(scope) => {
                let caller = guard.bearer(headers)?;
                caller.refuse_unless_over_all(scope)?;
                caller
            }
        };
        if let Some(keyspace) = &need.keyspace {
            caller.refuse_unless_seen(keyspace)?;
        }
        match admin {
            Some(admin) if need.dangerous && self.door != Door::Admin => {
                let detail =
                    format!("this is answered by the admin listener only (listen.admin), at {admin}");
                Err(Refusal::new(Code::Forbidden, detail))
            }
            _ => Ok(caller),
        }
    }

    async fn route(&self, request: hyper::Request<Incoming>, is_grpc: bool) -> Response<Body> {
        if is_grpc {
            return self.ways.grpc.call(request).await.map(Body::Grpc);
        }
        let measures = &self.state.measures;
        let begun = measures.http.begin();
        let answered = self.answer(request).await;
        let response = answered.unwrap_or_else(|refusal| answer::refusal(&refusal));
        measures.http.answered(1, begun);
        measures.answered_http(&response);
        response
    }

    /// Everything but gRPC.
    async fn answer(&self, request: hyper::Request<Incoming>) -> Result<Response<Body>, Refusal> {
        let caller = self.admit(request.method(), request.uri().path(), request.headers())?;
        if request.method() == Method::POST && mint_path(request.uri().path()).is_some() {
            let (parts, body) = request.into_parts();
            let name = mint_path(parts.uri.path()).unwrap_or_default();
            return take::take(&self.state, &caller, name, &parts.headers, body).await;
        }
        if let Some(followed) = redirect::followed(request.method(), request.uri().path()) {
            return redirect::follow(&self.state, followed, request.headers(), self.from).await;
        }
        let _place = self.state.enter(request.method(), request.uri().path())?;
        let mut request = request.map(axum::body::Body::new);
        request.extensions_mut().insert(caller);
        let Ok(response) = self.ways.router.clone().oneshot(request).await;
        Ok(response.map(Body::Routed))
    }
}

/// Whether names, links or references are asked for.
fn is_about_names(method: &Method, path: &str) -> bool {
    let below = path.strip_prefix("/v1/keyspaces/").and_then(|rest| rest.split('/').nth(1));
    matches!(below, Some("links" | "refs")) || below == Some("keys") && method == Method::PUT
}

/// The name in `/v1/keyspaces/{name}/keys`.
fn mint_path(path: &str) -> Option<&str> {
    let name = path.strip_prefix("/v1/keyspaces/")?.strip_suffix("/keys")?;
    (!name.contains(['/', '%'])).then_some(name)
}

impl hyper::service::Service<hyper::Request<Incoming>> for App {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn call(&self, request: hyper::Request<Incoming>) -> Self::Future {
        let app = self.clone();
        Box::pin(async move {
            // The path first: taking keys is nearly all of the traffic.
            let takes = request.method() == Method::POST && mint_path(request.uri().path()).is_some();
            let is_grpc = !takes && grpc::is_grpc(&request);
            if let Some(traces) = &app.state.traces
                && let Some(parent) = traces.parent(request.headers())
            {
                return Ok(Box::pin(traced::answer(&app, traces, parent, request, is_grpc)).await);
            }
            Ok(app.route(request, is_grpc).await)
        })
    }
}

fn router(state: Arc<State>) -> Router {
    Router::new()
        .route("/v1/keyspaces", get(keyspaces::list).post(keyspaces::create).fallback(only_get_post))
        .route(
            "/v1/keyspaces/{ks}",
            get(keyspaces::show).patch(keyspaces::tune).delete(keyspaces::retire).fallback(only_keyspace),
        )
        .route("/v1/keyspaces/{ks}/keys", post(take_routed).fallback(only_post))
        .route(
            "/v1/keyspaces/{ks}/keys/{key}",
            get(keyspaces::inspect).put(links::claim).fallback(only_get_put),
        )
        .route("/v1/keyspaces/{ks}/links", get(links::list).post(links::create).fallback(only_get_post))
        .route("/v1/keyspaces/{ks}/links/batch", post(links::create_all).fallback(only_post))
        .route(
            "/v1/keyspaces/{ks}/links/{key}",
            get(links::show).put(links::bind).patch(links::change).delete(links::delete).fallback(only_link),
        )
        .route("/v1/keyspaces/{ks}/refs", get(links::references).post(links::refer).fallback(only_get_post))
        .route("/v1/keyspaces/{ks}/refs/batch", post(links::refer_all).fallback(only_post))
        .route("/v1/keyspaces/{ks}/refs/{ref}", get(links::referred).fallback(only_get))
        .route("/v1/keyspaces/{ks}/used", post(links::import_used).fallback(only_post))
        .route("/v1/keyspaces/{ks}/fill", post(rows::fill).fallback(only_post))
        .route("/v1/keyspaces/{ks}/import", post(rows::import).fallback(only_post))
        .route("/v1/keyspaces/{ks}/history", get(history::show).fallback(only_get))
        .route("/v1/keyspaces/{ks}/issued", get(issued::list).fallback(only_get))
        .route("/v1/keyspaces/{ks}/range", get(decode::range).fallback(only_get))
        .route("/v1/decode", get(decode::at).fallback(only_get))
        .route("/v1/decode/{id}", get(decode::decode).fallback(only_get))
        .route("/v1/ledger", get(ledger::show).fallback(only_get))
        .route("/v1/ledger/advance", post(ledger::advance).fallback(only_post))
        .route("/v1/ledger/backup", post(ledger::backup).fallback(only_post))
        .route("/v1/nodes", get(ledger::nodes).fallback(only_get))
        .route("/v1/workers", get(ledger::workers).fallback(only_get))
        .route("/v1/claims", get(ledger::claims).fallback(only_get))
        .route("/v1/incidents", get(incidents::list).fallback(only_get))
        .route("/v1/tokens", get(tokens::list).post(tokens::create).fallback(only_get_post))
        .route("/v1/tokens/{id}", delete(tokens::revoke).fallback(only_delete))
        .route("/v1/stream", get(stream::stream).fallback(only_get))
        .route("/", get(dashboard::page).fallback(only_get))
        .route("/assets/{file}", get(dashboard::file).fallback(only_get))
        .route("/healthz", get(status::healthz).fallback(only_get))
        .route("/readyz", get(status::readyz).fallback(only_get))
        .route("/metrics", get(metrics::metrics).fallback(only_get))
        .route("/openapi.json", get(openapi::serve).fallback(only_get))
        .route("/docs", get(docs::page).fallback(only_get))
        .route("/docs/{file}", get(docs::file).fallback(only_get))
        .fallback(any(nothing_here))
        .with_state(state)
}

/// The mint address when its name needed decoding; the usual case never comes here.
async fn take_routed(
    axum::extract::State(state): axum::extract::State<Arc<State>>,
    axum::Extension(caller): axum::Extension<Caller>,
    Path(keyspace): Path<String>,
    request: Request,
) -> axum::response::Response {
    let (parts, body) = request.into_parts();
    let response = take::take(&state, &caller, &keyspace, &parts.headers, body).await;
    response.unwrap_or_else(|refusal| answer::refusal(&refusal)).map(axum::body::Body::new)
}

async fn nothing_here(request: Request) -> Refused {
    let path = request.uri().path().escape_debug().to_string();
    Refused(Refusal::new(
        Code::RouteNotFound,
        format!("there is nothing at {path}; GET /docs shows what there is"),
    ))
}

macro_rules! only {
    ($($name:ident => $methods:literal),*) => {
        $(async fn $name() -> axum::response::Response {
            answer::method_not_allowed($methods).map(axum::body::Body::new).into_response()
        })*
    };
}
only!(
    only_get => "GET, HEAD",
    only_post => "POST",
    only_delete => "DELETE",
    only_get_post => "GET, HEAD, POST",
    only_get_put => "GET, HEAD, PUT",
    only_link => "GET, HEAD, PUT, PATCH, DELETE",
    only_keyspace => "GET, HEAD, PATCH, DELETE"
);
