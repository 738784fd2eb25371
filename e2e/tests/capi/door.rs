//! A proxy in front of the API server of an in-memory Cluster, which serves neither /version nor all kinds that a
//! preflight reads: the proxy answers these itself and forwards everything else, including streams and upgraded
//! connections.

use std::{convert::Infallible, net::Ipv4Addr, sync::Arc};

use axum::body::{Body, to_bytes};
use http::{Request, Response, StatusCode, header};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject as _},
};
use serde_json::{Value, json};
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
};
use tokio_rustls::{TlsAcceptor, TlsConnector};
use tokio_util::task::AbortOnDropHandle;

use crate::certificate::Certificate;

/// Kinds that a preflight reads and an in-memory Cluster does not serve: answered with empty lists.
const EMPTY: [(&str, &str, &str); 4] = [
    (
        "/apis/policy/v1/poddisruptionbudgets",
        "policy/v1",
        "PodDisruptionBudgetList",
    ),
    (
        "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
        "admissionregistration.k8s.io/v1",
        "ValidatingWebhookConfigurationList",
    ),
    (
        "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
        "admissionregistration.k8s.io/v1",
        "MutatingWebhookConfigurationList",
    ),
    (
        "/apis/discovery.k8s.io/v1/endpointslices",
        "discovery.k8s.io/v1",
        "EndpointSliceList",
    ),
];
/// The label of a control plane node.
const CONTROL_PLANE: &str = "node-role.kubernetes.io/control-plane";
/// Maximum size of a list of nodes, in bytes.
const LIST: usize = 4 << 20;

/// A running proxy. Dropping it stops it.
pub(crate) struct Door {
    pub url: String,
    /// The authority of its certificate, PEM.
    pub authority: String,
    _serving: AbortOnDropHandle<()>,
}

/// The API server behind the proxy, and the client certificate for it.
struct Behind {
    address: String,
    tls: TlsConnector,
}

impl Door {
    /// Starts a proxy in front of the server in a kubeconfig.
    pub(crate) async fn before(kubeconfig: &Value) -> Self {
        let behind = Arc::new(Behind::of(kubeconfig));
        let certificate = Certificate::of_loopback();
        let tls = certificate.acceptor();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let url = format!("https://{}", listener.local_addr().unwrap());
        let serving = AbortOnDropHandle::new(tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, tls.clone(), behind.clone()));
            }
        }));
        Self {
            url,
            authority: certificate.authority,
            _serving: serving,
        }
    }
}

async fn serve(stream: TcpStream, tls: TlsAcceptor, behind: Arc<Behind>) {
    let Ok(stream) = tls.accept(stream).await else {
        return;
    };
    let service = hyper::service::service_fn(move |request| {
        let behind = behind.clone();
        async move { Ok::<_, Infallible>(behind.answer(request).await) }
    });
    // A client that disconnects is not an error of the proxy.
    let _ = hyper::server::conn::http1::Builder::new()
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades()
        .await;
}

impl Behind {
    fn of(kubeconfig: &Value) -> Self {
        let data = |value: &Value| {
            let text = value.as_str().unwrap();
            base64::Engine::decode(&base64::engine::general_purpose::STANDARD, text).unwrap()
        };
        let (cluster, user) = (
            &kubeconfig["clusters"][0]["cluster"],
            &kubeconfig["users"][0]["user"],
        );
        let mut roots = RootCertStore::empty();
        roots
            .add(CertificateDer::from_pem_slice(&data(&cluster["certificate-authority-data"])).unwrap())
            .unwrap();
        let config = ClientConfig::builder()
            .with_root_certificates(roots)
            .with_client_auth_cert(
                vec![CertificateDer::from_pem_slice(&data(&user["client-certificate-data"])).unwrap()],
                PrivateKeyDer::from_pem_slice(&data(&user["client-key-data"])).unwrap(),
            )
            .unwrap();
        let server = cluster["server"].as_str().unwrap();
        Self {
            address: server.trim_start_matches("https://").to_owned(),
            tls: TlsConnector::from(Arc::new(config)),
        }
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<Body> {
        let path = request.uri().path();
        if let Some((_, version, kind)) = EMPTY.iter().find(|(known, ..)| *known == path) {
            return answer(&json!({"apiVersion": version, "kind": kind, "metadata": {}, "items": []}));
        }
        let answered = if path == "/version" {
            self.version().await
        } else {
            self.pass(request.map(Body::new)).await
        };
        answered.unwrap_or_else(|error| {
            let body = Body::from(error.to_string());
            let mut response = Response::new(body);
            *response.status_mut() = StatusCode::BAD_GATEWAY;
            response
        })
    }

    /// The oldest kubelet version of the control plane nodes: an API server is as old as the oldest of its replicas.
    async fn version(&self) -> anyhow::Result<Response<Body>> {
        let request = Request::builder().uri("/api/v1/nodes").body(Body::empty())?;
        let nodes = self.pass(request).await?;
        let nodes: Value = serde_json::from_slice(&to_bytes(nodes.into_body(), LIST).await?)?;
        let oldest = nodes["items"]
            .as_array()
            .into_iter()
            .flatten()
            .filter(|node| node["metadata"]["labels"].get(CONTROL_PLANE).is_some())
            .filter_map(|node| node["status"]["nodeInfo"]["kubeletVersion"].as_str())
            .min()
            .ok_or_else(|| anyhow::anyhow!("no node of the control plane has a version"))?;
        Ok(answer(&json!({"major": "1", "minor": "", "gitVersion": oldest})))
    }

    async fn pass(&self, mut request: Request<Body>) -> anyhow::Result<Response<Body>> {
        // The provider identifies the Cluster by this header.
        request.headers_mut().insert(header::HOST, self.address.parse()?);
        let wanted = hyper::upgrade::on(&mut request);
        let stream = TcpStream::connect(&self.address).await?;
        let name = ServerName::try_from(self.address.split(':').next().unwrap_or_default().to_owned())?;
        let stream = self.tls.connect(name, stream).await?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection.with_upgrades());
        let mut response = sender.send_request(request).await?;
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            let given = hyper::upgrade::on(&mut response);
            tokio::spawn(async move {
                if let (Ok(wanted), Ok(given)) = tokio::join!(wanted, given) {
                    let _ = copy_bidirectional(&mut TokioIo::new(wanted), &mut TokioIo::new(given)).await;
                }
            });
        }
        let response = response.map(Body::new);
        if response.status().is_client_error() {
            return Self::refused(response).await;
        }
        Ok(response)
    }

    /// Unlike an API server, the provider wraps errors twice.
    async fn refused(response: Response<Body>) -> anyhow::Result<Response<Body>> {
        let (parts, body) = response.into_parts();
        let body = to_bytes(body, LIST).await?;
        let wrapped: Option<Value> = serde_json::from_slice(&body).ok();
        let inner = wrapped.and_then(|wrapped| wrapped.get("ErrStatus").map(Value::to_string));
        let body = inner.map_or_else(|| Body::from(body), Body::from);
        let mut response = Response::new(body);
        *response.status_mut() = parts.status;
        let json = http::HeaderValue::from_static("application/json");
        response.headers_mut().insert(header::CONTENT_TYPE, json);
        Ok(response)
    }
}

fn answer(value: &Value) -> Response<Body> {
    Response::builder()
        .header(header::CONTENT_TYPE, "application/json")
        .body(Body::from(value.to_string()))
        .unwrap()
}
