//! Handles a request: applies fault rules, records it, and dispatches it.

use std::sync::Arc;

use bytes::Bytes;
use http::header;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};

use super::query::Query;
use super::route::{Route, Target, route, verb};
use super::{Call, accept, connect, create, delete, evict, patch, read, respond, scale, update, watch};
use crate::admission::Warnings;
use crate::core::Core;
use crate::discovery;
use crate::fault::{Verdict, hostile};
use crate::http::{Body, BodyError, Caller, Verb};
use crate::status::ApiError;

/// Maximum size of a body: 3 MiB, as kube-apiserver's `MaxRequestBodyBytes`.
const BODY_LIMIT: usize = 3 * 1024 * 1024;

impl Core {
    /// Handles one request. An error means that the connection must be closed without a response.
    pub(crate) async fn handle<B>(
        self: &Arc<Self>,
        client: &str,
        request: http::Request<B>,
    ) -> Result<http::Response<Body>, BodyError>
    where
        B: http_body::Body + Send,
        B::Data: Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        if self.is_stopped() {
            return Err(BodyError::Closed);
        }
        let (parts, body) = request.into_parts();
        let text = |name| {
            parts
                .headers
                .get(name)
                .and_then(|v: &http::HeaderValue| v.to_str().ok())
                .unwrap_or_default()
        }; // not valid text: treated as absent
        let caller = Caller {
            client: client.to_owned(),
            agent: text(header::USER_AGENT).to_owned(),
        };
        let query = Query::parse(parts.uri.query().unwrap_or_default());
        let route = route(parts.uri.path());
        let verb = match &route {
            Route::Resource(target) => verb(&parts.method, target, &query),
            _ => None,
        };
        let record = self
            .recorder
            .begin(&caller, &parts.method, &parts.uri, verb, self.clock.elapsed());
        let verdict = self.faults.judge(&caller, verb, parts.uri.path());
        for delay in verdict.iter().filter_map(Verdict::delay) {
            tokio::time::sleep(delay).await;
        }
        if verdict.iter().any(|fault| matches!(fault, Verdict::Refuse)) {
            record.end(0, 0);
            return Err(BodyError::Closed);
        }
        let head = RequestHead {
            content_type: text(header::CONTENT_TYPE).to_owned(),
            accept: text(header::ACCEPT).to_owned(),
            method: parts.method.clone(),
            caller,
            query,
            verb,
            route,
        };
        let answer = match verdict.iter().find_map(Verdict::answer) {
            Some(response) => response,
            None => match collect(body).await {
                Ok(body) => self.answer(head, body).await,
                Err(error) => respond::error(&error),
            },
        };
        if verdict.iter().any(|fault| matches!(fault, Verdict::DropResponse)) {
            record.end(answer.status().as_u16(), 0);
            return Err(BodyError::Closed);
        }
        let code = answer.status().as_u16();
        let answer = match verdict.iter().find_map(Verdict::drip) {
            Some(pause) => answer.map(|body| hostile::drip(body, pause)),
            None => answer,
        };
        Ok(
            answer.map(|body| match http_body::Body::size_hint(&body).exact() {
                Some(size) => {
                    record.end(code, size);
                    body
                }
                None => record.follow(code, body),
            }),
        )
    }

    async fn answer(self: &Arc<Self>, head: RequestHead, body: Bytes) -> http::Response<Body> {
        let RequestHead { method, route, .. } = &head;
        let catalog = self.registry.catalog();
        if !matches!(route, Route::Resource(_)) && method != http::Method::GET && method != http::Method::HEAD
        {
            return respond::error(&ApiError::method_not_allowed());
        }
        match route {
            Route::Health => respond::respond_text(200, "ok"),
            Route::Version => respond::respond_json(200, &discovery::server_version()),
            Route::Index => respond::respond_json(200, &discovery::api_index(&catalog)),
            Route::CoreVersions | Route::Groups => respond::respond_document(discovery::groups(
                &catalog,
                matches!(route, Route::CoreVersions),
                &head.accept,
            )),
            Route::Group(group) => respond::found(discovery::group(&catalog, group)),
            Route::Resources(group, version) => {
                respond::found(discovery::resources(&catalog, group, version))
            }
            Route::OpenApiV2 => {
                let (media, document) = discovery::openapi::version_2(&head.accept);
                respond::respond_typed(200, media, document)
            }
            Route::OpenApiIndex => respond::respond_json(200, &discovery::openapi::openapi_index(&catalog)),
            Route::OpenApi(group, version) => {
                respond::found(discovery::openapi::openapi_document(&catalog, group, version))
            }
            Route::Nowhere => respond::error(&ApiError::no_such_path()),
            Route::Resource(target) => {
                let target = target.clone();
                self.resource(head, &target, body)
                    .await
                    .unwrap_or_else(|error| respond::error(&error))
            }
        }
    }

    async fn resource(
        self: &Arc<Self>,
        head: RequestHead,
        target: &Target,
        body: Bytes,
    ) -> Result<http::Response<Body>, ApiError> {
        let resource = self.find(target)?;
        if !serves(&resource, target) {
            return Err(ApiError::no_such_resource());
        }
        let verb = head.verb.ok_or_else(ApiError::method_not_allowed)?;
        let call = Call {
            core: self,
            accept: accept::negotiate(&head.accept)?,
            resource,
            target,
            query: &head.query,
            caller: &head.caller,
            body,
            content_type: head.content_type,
            warnings: Warnings::default(),
        };
        let answer = serve(&call, verb).await;
        let warnings = call.warnings.into_inner();
        if warnings.is_empty() {
            return answer;
        }
        let answer = answer.unwrap_or_else(|error| respond::error(&error));
        Ok(respond::with_warnings(answer, &warnings))
    }

    fn find(&self, target: &Target) -> Result<Arc<crate::resources::Resource>, ApiError> {
        let catalog = self.registry.catalog();
        if let Some(found) = catalog.find(&target.group, &target.version, &target.plural) {
            return Ok(found.clone());
        }
        let is_builtin = |r: &Arc<crate::resources::Resource>| r.custom().is_none();
        let builtin_group = catalog
            .version(&target.group, &target.version)
            .is_some_and(|resources| resources.values().any(is_builtin));
        Err(if builtin_group {
            ApiError::no_such_resource()
        } else {
            ApiError::no_such_path()
        })
    }
}

async fn serve(call: &Call<'_>, verb: Verb) -> Result<http::Response<Body>, ApiError> {
    if call.target.subresource == "scale" {
        return scale::serve_scale(call, verb).await;
    }
    if connect::is_connection(&call.target.subresource) {
        return Err(connect::refuse(call, verb).await);
    }
    if call.target.subresource == "eviction" {
        return evict::serve_eviction(call, verb).await;
    }
    match verb {
        Verb::Get => read::get(call).await,
        Verb::List => read::serve_list(call).await,
        Verb::Watch => watch::open_watch(call),
        Verb::Create => create::create(call).await,
        Verb::Update => update::serve_update(call).await,
        Verb::Patch => patch::patch(call).await,
        Verb::Delete => delete::one(call).await,
        Verb::DeleteCollection => delete::collection(call).await,
    }
}

/// A request without its body.
struct RequestHead {
    method: http::Method,
    route: Route,
    verb: Option<Verb>,
    query: Query,
    caller: Caller,
    content_type: String,
    accept: String,
}

/// Whether a resource has such a path: namespaced or not, and the subresource.
fn serves(resource: &crate::resources::Resource, target: &Target) -> bool {
    let scope = if resource.namespaced {
        !target.namespace.is_empty() || target.name.is_empty()
    } else {
        target.namespace.is_empty()
    };
    let subresource = match target.subresource.as_str() {
        "" => true,
        "status" => resource.status,
        "scale" => resource.scale.is_some(),
        "finalize" => resource.is("", "Namespace"),
        "eviction" => resource.is("", "Pod"),
        sub if connect::is_connection(sub) => resource.is("", "Pod"),
        _ => false,
    };
    scope && subresource
}

async fn collect<B>(body: B) -> Result<Bytes, ApiError>
where
    B: http_body::Body + Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    match Limited::new(body, BODY_LIMIT).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(ApiError::too_large(BODY_LIMIT)),
        Err(error) => Err(ApiError::bad_request(&format!(
            "unable to read the body: {error}"
        ))),
    }
}
