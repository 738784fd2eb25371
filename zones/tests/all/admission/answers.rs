//! The HTTP side: which bodies are reviews, and how they are answered.

use muster_zones::admit::{Response, serve};
use serde_json::{Value, json};

fn answer(content_type: &str, body: &str) -> (u16, String) {
    let answer = match serve::read(content_type, body.as_bytes()) {
        Ok(review) => serve::write(&review, &Response::deny(format!("not {}", review.request.name))),
        Err(refusal) => refusal,
    };
    (answer.status, answer.body)
}

#[test]
fn a_review_is_answered_in_its_version_with_its_uid() {
    for version in ["v1", "v1beta1"] {
        let review = json!({"apiVersion": format!("admission.k8s.io/{version}"), "kind": "AdmissionReview",
            "request": {"uid": "u", "name": "web", "unknown": {}}});
        let (status, body) = answer("application/json", &review.to_string());
        assert_eq!(status, 200);
        assert_eq!(
            serde_json::from_str::<Value>(&body).unwrap(),
            json!({"apiVersion": format!("admission.k8s.io/{version}"), "kind": "AdmissionReview",
                "response": {"uid": "u", "allowed": false, "status": {"message": "not web"}}})
        );
    }
}

#[test]
fn everything_else_is_a_mistake_of_the_caller() {
    let review = r#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{}}"#;
    for (content_type, body, text) in [
        ("application/json; charset=utf-8", review, "wrong content type\n"),
        ("", review, "wrong content type\n"),
        (
            "application/json",
            "",
            "Request could not be decoded: Object 'Kind' is missing in ''\n",
        ),
        (
            "application/json",
            "{}",
            "Request could not be decoded: Object 'Kind' is missing in '{}'\n",
        ),
        (
            "application/json",
            r#"{"apiVersion":"my.group/v1","kind":"Thing"}"#,
            "Request could not be decoded: no kind \"Thing\" is registered for version \"my.group/v1\"\n",
        ),
        (
            "application/json",
            r#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}"#,
            "Request could not be decoded: the review has no request\n",
        ),
    ] {
        assert_eq!(answer(content_type, body), (400, text.to_owned()), "{body}");
    }
}
