//! Promise: the dashboard is read-only: it shows what the command shows, bounded and escaped, and has no other routes.

use std::{sync::Arc, time::Duration};

use crate::fixture::{Served, limited, module, objects, objects_with_attention, served, snapshot, text};
use async_trait::async_trait;
use axum::{body::Body, http::Response};
use http_body_util::BodyExt as _;
use muster_api::{Module, module::ReasonGroup};
use muster_dashboard::{
    Filter, Fleet, Matrix, Objects, Snapshot, Trouble,
    server::{Admission, Hosts, Limits, Setup, Verdict, router},
};
use serde_json::{Value, json};

/// Every page of the fixture.
const PAGES: [&str; 7] = [
    "/",
    "/activity",
    "/module/web",
    "/module/web/revision/bbbbbbbb",
    "/module/web/on/eu-1",
    "/cluster/eu-1",
    "/?q=web&label=env%3Dprod&only=problems&fold=no",
];

#[tokio::test]
async fn every_page_has_the_headers_and_loads_nothing_from_elsewhere() {
    let served = served(objects());
    for path in PAGES
        .into_iter()
        .chain(["/assets/none.css", "/nowhere", "/api/v1/matrix.json"])
    {
        let answer = served.get(path).await;
        let header = |name: &str| {
            answer
                .headers()
                .get(name)
                .map(|value| value.to_str().unwrap().to_owned())
        };
        let policy = header("content-security-policy").unwrap();
        for part in [
            "default-src 'none'",
            "script-src 'self'",
            "style-src 'self'",
            "img-src 'self'",
            "connect-src 'self'",
            "base-uri 'none'",
            "form-action 'self'",
            "frame-ancestors 'none'",
        ] {
            assert!(policy.contains(part), "{path}: {policy}");
        }
        assert!(!policy.contains("unsafe"), "{policy}");
        assert_eq!(header("x-content-type-options").unwrap(), "nosniff");
        assert_eq!(header("referrer-policy").unwrap(), "no-referrer");
        let text = text(answer).await;
        for foreign in [
            "=\"//", "=\"http", "href=\"/", "src=\"/", "style=\"", "<style", "onclick", "<script>",
        ] {
            assert!(!text.contains(foreign), "{path}: {foreign}: {text}");
        }
    }
}

#[tokio::test]
async fn there_is_no_way_to_write() {
    let served = served(objects());
    for path in PAGES.into_iter().chain([
        "/events/",
        "/events/module/web",
        "/api/v1/matrix.json",
        "/assets/x",
        "/nowhere",
    ]) {
        for method in ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND"] {
            let answer = served.send_request(method, path, &[]).await;
            assert_eq!(answer.status(), 405, "{method} {path}");
            assert!(
                answer.headers().contains_key("content-security-policy"),
                "{method} {path}"
            );
        }
    }
    let head = served.send_request("HEAD", "/", &[]).await;
    assert_eq!(head.status(), 200);
    assert_eq!(text(head).await, "");
    let page = served.text("/").await;
    assert!(!page.contains("method=\"post\""), "{page}");
}

#[tokio::test]
async fn what_is_not_there() {
    let served = served(objects());
    for path in [
        "/nowhere",
        "/../etc/passwd",
        "/..",
        "/%2e%2e/",
        "//",
        "/module/",
        "/module/..%2f..",
        "/assets/../server.rs",
        "/assets/%2e%2e%2fx",
        "/cluster/none",
        "/module/none",
        "/bootstrapmodule/web",
        "/module/web/on/none",
        "/module/web/revision/cccccccc",
        "/module/web/revision/x",
        "/api/v1/none.json",
        "/api/v1/matrix",
        "/api/v1/why/module/none.json",
        "/api/v1/why/module/web/on/none.json",
        "/events/nowhere",
        "/events/..",
        "/module/%00",
        "/cluster/%ff",
    ] {
        assert_eq!(served.get(path).await.status(), 404, "{path}");
    }
}

#[tokio::test]
async fn only_names_of_this_machine_are_answered() {
    let served = served(objects());
    let status = async |host: &str| {
        served
            .send_request("GET", "/", &[("host", host)])
            .await
            .status()
            .as_u16()
    };
    assert_eq!(status("127.0.0.1:1234").await, 200);
    assert_eq!(status("evil.example").await, 421);
    assert_eq!(status("evil.example:8080").await, 421);
    assert_eq!(status("").await, 421);
    let other = served
        .send_request("GET", "/events/", &[("host", "evil.example")])
        .await;
    assert_eq!(other.status(), 421);
}

#[tokio::test]
async fn the_page_shows_what_the_command_shows() {
    let served = served(objects());
    let fleet = Fleet::of(&objects());
    let expect = serde_json::to_string_pretty(&Matrix::of(&fleet, Matrix::FOLD_FROM)).unwrap() + "\n";
    assert_eq!(served.text("/api/v1/matrix.json").await, expect);
    let page = served.text("/").await;
    for row in &Matrix::of(&fleet, Matrix::FOLD_FROM).rows {
        for cell in &row.cells {
            let id = format!("id=\"cell:Module:{}:{}\"", row.module, cell.cluster);
            let (_, rest) = page.split_once(&id).unwrap_or_else(|| panic!("{id}: {page}"));
            let shown = rest.split_once("</td>").unwrap().0;
            assert!(
                shown.contains(cell.shape.glyph()) && shown.contains(cell.shape.word()),
                "{shown}"
            );
            if let Some(version) = &cell.version {
                assert!(shown.contains(version), "{shown}");
            }
        }
    }
    assert!(
        page.contains("2 modules on 4 clusters: 1 needs attention: web on eu-1"),
        "{page}"
    );
    assert!(page.contains("Deployment web/web: ImagePullBackOff"), "{page}");
}

#[tokio::test]
async fn filters_are_in_the_address() {
    let check = |filter: &Filter, modules: &[&str], clusters: &[&str]| {
        let fleet = filter.apply(&Fleet::of(&objects())).unwrap();
        let shown: Vec<&str> = fleet.modules.iter().map(|module| &*module.name).collect();
        assert_eq!(shown, modules, "{filter:?}");
        let shown: Vec<&str> = fleet.clusters.iter().map(|cluster| &*cluster.name).collect();
        assert_eq!(shown, clusters, "{filter:?}");
        for module in &fleet.modules {
            let cells: Vec<&str> = module.cells.iter().map(|cell| &*cell.cluster).collect();
            assert_eq!(cells, clusters, "{filter:?}");
        }
    };
    let all = ["dev-1", "eu-1", "eu-2", "lab"];
    let text = |text: &str| Filter {
        text: text.to_owned(),
        ..Filter::default()
    };
    let labels = |labels: &str| Filter {
        labels: labels.to_owned(),
        ..Filter::default()
    };
    check(&Filter::default(), &["api", "web"], &all);
    check(&text("WE"), &["web"], &all);
    check(&text("eu"), &["api", "web"], &["eu-1", "eu-2"]);
    check(&text("nothing"), &[], &[]);
    check(&labels("env=prod,region=eu"), &["api", "web"], &all[..3]);
    check(&labels("env!=prod"), &["api", "web"], &["lab"]);
    check(&labels("!region, env"), &["api", "web"], &["lab"]);
    let problems = Filter {
        only_problems: true,
        ..text("web")
    };
    check(&problems, &["web"], &["dev-1", "eu-1", "eu-2"]);
    for wrong in ["a b", "=x", "env=a b", "env in (a)", "<script>"] {
        assert!(labels(wrong).apply(&Fleet::of(&objects())).is_err(), "{wrong}");
    }
    let served = served(objects());
    let page = served.text("/?q=eu-1&label=env%3Dprod&only=problems").await;
    assert!(
        page.contains("value=\"eu-1\"") && page.contains("value=\"env=prod\"") && page.contains(" checked"),
        "{page}"
    );
    assert!(!page.contains("cell:Module:web:eu-2"), "{page}");
    assert!(
        page.contains("data-query=\"q=eu%2D1&amp;label=env%3Dprod&amp;only=problems\""),
        "{page}"
    );
    let wrong = served.text("/?label=%3Cscript%3E").await;
    assert!(
        wrong.contains("is not a label selector") && !wrong.contains("<script>"),
        "{wrong}"
    );
    assert_eq!(served.get("/api/v1/matrix.json?label=%3C").await.status(), 400);
}

/// A message of a megabyte with every kind of injection.
fn hostile() -> String {
    let evil = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>\u{0}\u{1b}[2J\u{202e}&#x3c;";
    format!("{evil}{}", "ä".repeat(1 << 20))
}

#[tokio::test]
async fn hostile_names_and_messages_are_inert() {
    let (message, name) = (hostile(), "<b onmouseover=alert(1)>\u{202e}\"");
    let mut all = objects_with_attention(&[("eu-1", "Failed", &message), (name, "<i>", &message)]);
    all.clusters
        .push(crate::fixture::cluster(name, &json!({"env": "prod", name: name})));
    all.modules.push(module(name, &[("eu-1", name, &message)]));
    all.proxies
        .push(crate::fixture::proxy(name, "web", name, "failed"));
    all.events.push(crate::fixture::happened(
        name,
        name,
        &message,
        "2026-01-03T03:02:00Z",
    ));
    let evidence = json!({"verdict": "Bad", "evidence": [{"cluster": name, "message": message}]});
    all.revisions
        .push(crate::fixture::revision("web", 'e', name, &evidence));
    let served = served(all);
    let encoded = "%3Cb%20onmouseover=alert(1)%3E%E2%80%AE%22";
    let more = [
        "/module/web/revision/eeeeeeee".to_owned(),
        format!("/module/{encoded}"),
        format!("/cluster/{encoded}"),
        format!("/module/web/on/{encoded}"),
        format!("/?q={encoded}"),
    ];
    for path in PAGES.iter().map(|path| (*path).to_owned()).chain(more) {
        let page = served.text(&path).await;
        for active in ["<script>", "<img", "<b ", "onmouseover=alert(1)>", "\"'>"] {
            assert!(!page.contains(active), "{path}: {active}");
        }
        let odd = page
            .chars()
            .find(|char| (char.is_control() && *char != '\n') || *char == '\u{202e}');
        assert_eq!(odd, None, "{path}");
        assert!(page.len() < 200_000, "{path}: {}", page.len());
    }
}

/// The events of a stream.
struct Stream(Body, String);

impl Stream {
    async fn open(served: &Served, path: &str, headers: &[(&str, &str)]) -> Self {
        let answer: Response<Body> = served.send_request("GET", path, headers).await;
        assert_eq!(answer.status(), 200, "{path}");
        assert_eq!(answer.headers()["content-type"], "text/event-stream", "{path}");
        Self(answer.into_body(), String::new())
    }

    /// The next event: its name, id and data; none at the end.
    async fn next(&mut self) -> Option<(String, String, Value)> {
        loop {
            if let Some((event, rest)) = self.1.split_once("\n\n") {
                let field = |name: &str| {
                    let found = event
                        .lines()
                        .find_map(|line| line.strip_prefix(&format!("{name}: ")));
                    found.unwrap_or_default().to_owned()
                };
                let found = (
                    field("event"),
                    field("id"),
                    serde_json::from_str(&field("data")).unwrap(),
                );
                self.1 = rest.to_string();
                return Some(found);
            }
            let frame = self.0.frame().await?.unwrap();
            self.1 += std::str::from_utf8(frame.data_ref().unwrap()).unwrap();
        }
    }

    /// The next patch: its id, and the ids of the elements that it changes.
    async fn patch(&mut self) -> (String, Vec<String>) {
        loop {
            let (event, id, data) = self.next().await.unwrap();
            if event == "patch" {
                let changes = data.as_array().unwrap().iter();
                return (
                    id,
                    changes
                        .map(|change| change[0].as_str().unwrap().to_owned())
                        .collect(),
                );
            }
        }
    }
}

/// `web` after progress: eu-1 is ready.
fn better() -> Arc<Snapshot> {
    snapshot(objects_with_attention(&[
        ("eu-1", "Updating", "on its way"),
        ("eu-2", "Halted", "v2 failed on eu-1"),
    ]))
}

#[tokio::test(start_paused = true)]
async fn a_change_arrives_as_the_cells_that_changed() {
    let served = served(objects());
    let have = served.version("/").await;
    let mut stream = Stream::open(&served, &format!("/events/?have={have}"), &[]).await;
    assert_eq!(
        stream.patch().await,
        (have.clone(), vec![]),
        "it has what there is"
    );
    served.sender.send(better()).unwrap();
    let (id, changed) = stream.patch().await;
    assert!(
        changed.contains(&"cell:Module:web:eu-1".to_owned()),
        "{changed:?}"
    );
    assert!(
        !changed.contains(&"cell:Module:web:eu-2".to_owned()),
        "{changed:?}"
    );
    assert!(!changed.contains(&"matrix".to_owned()), "{changed:?}");
    assert_eq!(
        id,
        served.version("/").await,
        "the window has then what a reload would show"
    );
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_was_cut_off_loses_nothing() {
    let served = served(objects());
    let have = served.version("/").await;
    let mut stream = Stream::open(&served, &format!("/events/?have={have}"), &[]).await;
    let (id, _) = stream.patch().await;
    drop(stream);
    served.sender.send(better()).unwrap();
    let mut again = Stream::open(&served, "/events/?have=other", &[("last-event-id", &id)]).await;
    let (id, changed) = again.patch().await;
    for part in ["hero", "concerns", "matrix"] {
        assert!(changed.contains(&part.to_owned()), "{changed:?}");
    }
    let mut third = Stream::open(&served, "/events/", &[("last-event-id", &id)]).await;
    assert_eq!(third.patch().await, (id, vec![]));
}

#[tokio::test(start_paused = true)]
async fn a_window_gets_at_most_five_messages_a_second() {
    let served = served(objects());
    let mut stream = Stream::open(&served, "/events/", &[]).await;
    stream.patch().await;
    let sender = served.sender.clone();
    tokio::spawn(async move {
        for number in 0..1_000 {
            let message = format!("number {number}");
            sender
                .send(snapshot(objects_with_attention(&[("eu-1", "Failed", &message)])))
                .unwrap();
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    });
    let start = tokio::time::Instant::now();
    let mut messages = 0;
    loop {
        let (_, _, data) = stream.next().await.unwrap();
        messages += 1;
        if data.to_string().contains("number 999") {
            break;
        }
    }
    assert!(messages <= 12, "{messages} messages in {:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn signs_of_life_and_an_end() {
    let served = served(objects());
    let mut stream = Stream::open(&served, "/events/activity", &[]).await;
    stream.patch().await;
    let start = tokio::time::Instant::now();
    assert_eq!(stream.next().await.unwrap().0, "beat");
    assert_eq!(start.elapsed().as_secs(), 15);
    while stream.next().await.is_some() {}
    assert_eq!(
        start.elapsed().as_secs(),
        600,
        "it asks again, and is admitted again"
    );
}

#[tokio::test(start_paused = true)]
async fn a_page_of_another_build_reloads_itself() {
    let served = served(objects());
    let mut stream = Stream::open(&served, "/events/?build=older", &[]).await;
    assert_eq!(stream.next().await.unwrap().0, "reload");
}

#[tokio::test]
async fn streams_are_bounded() {
    let limits = Limits {
        streams: 2,
        ..Limits::default()
    };
    let served = limited(objects(), limits);
    let first = served.get("/events/").await;
    let second = served.get("/events/module/web").await;
    let third = served.get("/events/").await;
    assert_eq!(
        (
            first.status().as_u16(),
            second.status().as_u16(),
            third.status().as_u16()
        ),
        (200, 200, 503)
    );
    assert_eq!(
        (&third.headers()["retry-after"], &third.headers()["connection"]),
        (&"10".parse().unwrap(), &"close".parse().unwrap())
    );
    drop(first);
    assert_eq!(served.get("/events/").await.status(), 200);
    assert_eq!(
        served.get("/").await.status(),
        200,
        "pages are answered all the same"
    );
}

#[tokio::test]
async fn what_cannot_be_read_is_said() {
    let served = served(objects());
    let trouble = Trouble {
        what: "proxyassemblages".to_owned(),
        since: "2026-01-02T03:04:05Z".parse().unwrap(),
        message: "the API server does not answer".to_owned(),
    };
    served
        .sender
        .send(Arc::new(Snapshot::new(
            "fleet".to_owned(),
            "2026-01-03T04:00:00Z".parse().unwrap(),
            objects(),
            true,
            vec![trouble],
        )))
        .unwrap();
    for path in PAGES {
        let page = served.text(path).await;
        assert!(
            page.contains("proxyassemblages") && page.contains("the API server does not answer"),
            "{path}: {page}"
        );
    }
    served
        .sender
        .send(Arc::new(Snapshot::new(
            "fleet".to_owned(),
            "2026-01-03T04:00:00Z".parse().unwrap(),
            Objects::default(),
            false,
            Vec::new(),
        )))
        .unwrap();
    let page = served.text("/").await;
    assert!(page.contains("The fleet is still loading"), "{page}");
    assert_eq!(served.get("/module/web").await.status(), 503);
    assert_eq!(served.get("/api/v1/matrix.json").await.status(), 503);
}

struct TokenAdmission;

#[async_trait]
impl Admission for TokenAdmission {
    async fn verdict(&self, token: &str) -> Verdict {
        match token {
            "good" => Verdict::Admitted,
            "weak" => Verdict::Forbidden,
            "away" => Verdict::Unsure,
            _ => Verdict::Unknown,
        }
    }
}

#[tokio::test]
async fn with_tokens_nothing_is_answered_without_one() {
    let Served { sender, .. } = served(objects());
    let setup = Setup {
        snapshots: sender.subscribe(),
        hosts: Hosts::Any,
        admission: Some(Arc::new(TokenAdmission)),
        limits: Limits::default(),
    };
    let served = Served {
        router: router(setup),
        sender,
    };
    for path in ["/", "/events/", "/api/v1/matrix.json", "/assets/x", "/nowhere"] {
        let status = async |authorization: &str| {
            served
                .send_request("GET", path, &[("authorization", authorization)])
                .await
                .status()
                .as_u16()
        };
        let without = served.get(path).await;
        assert_eq!(
            (without.status().as_u16(), &without.headers()["www-authenticate"]),
            (401, &"Bearer".parse().unwrap())
        );
        assert_eq!(status("Bearer bad").await, 401);
        assert_eq!(status("Basic good").await, 401);
        assert_eq!(status("Bearer weak").await, 403);
        assert_eq!(status("Bearer away").await, 503);
        assert!(![401, 403].contains(&status("Bearer good").await), "{path}");
    }
}

/// A module that waits for its turn on these clusters.
fn waiting(name: &str, clusters: &str) -> Arc<Module> {
    let mut module = Arc::unwrap_or_clone(module(name, &[]));
    module.status.as_mut().unwrap().reasons = vec![ReasonGroup {
        reason: "WaitingTurn".to_owned(),
        count: 200,
        clusters: clusters.to_owned(),
        ..ReasonGroup::default()
    }];
    module.into()
}

#[tokio::test]
async fn a_large_fleet_is_shown_folded_and_unfolded() {
    let clusters: Vec<String> = (0..200).map(|number| format!("c-{number}")).collect();
    let all = Objects {
        modules: (0..50)
            .map(|number| waiting(&format!("m-{number}"), "c-{0..199}"))
            .collect(),
        clusters: clusters
            .iter()
            .map(|name| crate::fixture::cluster(name, &json!({"env": "prod"})))
            .collect(),
        ..Objects::default()
    };
    let served = served(all);
    let folded = served.text("/").await;
    assert!(
        folded.contains("c-{0..199} (200)") && folded.len() < 100_000,
        "{}",
        folded.len()
    );
    let unfolded = served.text("/?fold=no").await;
    assert_eq!(unfolded.matches(" id=\"cell:").count(), 50 * 200);
    let packed = served
        .send_request("GET", "/?fold=no", &[("accept-encoding", "gzip")])
        .await;
    assert_eq!(packed.headers()["content-encoding"], "gzip");
    let packed = packed.into_body().collect().await.unwrap().to_bytes().len();
    assert!(packed < unfolded.len() / 10, "{packed} of {}", unfolded.len());
}
