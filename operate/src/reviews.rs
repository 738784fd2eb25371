//! Authorizes access to a controller's dashboard: reviews the token, and whether its user may get modules.

use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::api::{
    authentication::v1::{TokenReview, TokenReviewSpec, UserInfo},
    authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec},
};
use kube::{Client, api::PostParams};
use muster_api::kind;
use muster_controllers::runtime::Api;
use muster_controllers::runtime::{CallError, call::error_chain, call_within};
use muster_dashboard::server::{Admission, Verdict};
use tracing::warn;

/// The timeout of a review.
const PATIENCE: Duration = Duration::from_secs(5);

/// Asks an API server.
pub struct Reviews {
    client: Client,
    namespace: String,
}

impl Reviews {
    /// Checks access to the modules of a namespace.
    pub const fn new(client: Client, namespace: String) -> Self {
        Self { client, namespace }
    }

    async fn review_token(&self, token: &str) -> Result<Verdict, CallError> {
        let reviews: Api<TokenReview> = Api::all(self.client.clone());
        let review = TokenReview {
            spec: TokenReviewSpec {
                token: token.to_owned(),
                ..TokenReviewSpec::default()
            },
            ..TokenReview::default()
        };
        let parameters = PostParams::default();
        let reviewing = reviews.create(&parameters, &review);
        let status = call_within(PATIENCE, "reviewing a token", reviewing)
            .await?
            .status;
        let status = status.filter(|status| status.authenticated == Some(true));
        let Some(user) = status.and_then(|status| status.user) else {
            return Ok(Verdict::Unknown);
        };
        let rights: Api<SubjectAccessReview> = Api::all(self.client.clone());
        let question = question(user, &self.namespace);
        let reviewing = rights.create(&parameters, &question);
        let answer = call_within(PATIENCE, "reviewing the access of a user", reviewing).await?;
        let may = answer.status.is_some_and(|status| status.allowed);
        Ok(if may {
            Verdict::Admitted
        } else {
            Verdict::Forbidden
        })
    }
}

/// Whether a user may get modules.
fn question(user: UserInfo, namespace: &str) -> SubjectAccessReview {
    let text = |text: &str| Some(text.to_owned());
    SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            user: user.username,
            uid: user.uid,
            groups: user.groups,
            extra: user.extra,
            resource_attributes: Some(ResourceAttributes {
                group: text(kind::GROUP),
                resource: text("modules"),
                verb: text("get"),
                namespace: text(namespace),
                ..ResourceAttributes::default()
            }),
            ..SubjectAccessReviewSpec::default()
        },
        ..SubjectAccessReview::default()
    }
}

#[async_trait]
impl Admission for Reviews {
    async fn verdict(&self, token: &str) -> Verdict {
        self.review_token(token).await.unwrap_or_else(|error| {
            warn!(error = error_chain(&error), "the dashboard cannot review a token");
            Verdict::Unsure
        })
    }
}
