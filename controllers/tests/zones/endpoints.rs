//! Pods get HTTP requests within limits, whatever they respond.

use std::{net::SocketAddr, time::Duration};

use muster_controllers::{
    metrics::Metrics,
    zones::{
        metrics::ZoneMetrics,
        pods::{AskPods, MAX_ANSWER, Network},
    },
};
use muster_zones::scale::pods::{Ask, Method};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

/// How long a request may take in this test.
const DEADLINE: Duration = Duration::from_millis(400);

/// What a pod does with the connection after it has read the request.
#[derive(Clone)]
enum Pod {
    Says(String),
    Hangs,
    Drips,
    HangsUp,
}

/// A pod at an address of its own, and the number of requests it got.
async fn serve(pod: Pod) -> (SocketAddr, tokio::sync::watch::Receiver<u32>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (count, requests) = tokio::sync::watch::channel(0);
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut head = [0; 4096];
            // The request is short: it arrives at once.
            let _ = stream.read(&mut head).await;
            count.send_modify(|count| *count += 1);
            match &pod {
                Pod::Says(text) => {
                    let _ = stream.write_all(text.as_bytes()).await;
                }
                Pod::HangsUp => {}
                Pod::Hangs => std::future::pending::<()>().await,
                Pod::Drips => {
                    let _ = stream
                        .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
                        .await;
                    for _ in 0..1_000 {
                        let _ = stream.write_all(b"x").await;
                        tokio::time::sleep(Duration::from_millis(50)).await;
                    }
                }
            }
        }
    });
    (address, requests)
}

fn answer(status: &str, headers: &str, body: &str) -> Pod {
    let length = body.len();
    Pod::Says(format!(
        "HTTP/1.1 {status}\r\n{headers}Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    ))
}

async fn post_prepare(pod: Pod) -> Result<(u16, usize), String> {
    let (address, _) = serve(pod).await;
    let network = Network::new(Some(DEADLINE), None, ZoneMetrics::new(&Metrics::default())).unwrap();
    let ask = Ask {
        method: Method::Post,
        pod: "db-zone-a-0".to_owned(),
        url: format!("http://{address}/prepare"),
    };
    let answer = network.send_request(&ask).await?;
    Ok((answer.status, answer.body.len()))
}

#[tokio::test]
async fn each_answer_is_bounded_in_time_and_length() {
    let long = "x".repeat(MAX_ANSWER + 1);
    let most = "x".repeat(MAX_ANSWER);
    assert_eq!(post_prepare(answer("200 OK", "", "{}")).await, Ok((200, 2)));
    assert_eq!(post_prepare(answer("204 No Content", "", "")).await, Ok((204, 0)));
    assert_eq!(
        post_prepare(answer("500 Internal Server Error", "", "no")).await,
        Ok((500, 2))
    );
    assert_eq!(
        post_prepare(answer("200 OK", "", &most)).await,
        Ok((200, MAX_ANSWER))
    );
    assert_eq!(
        post_prepare(answer("200 OK", "", &long)).await,
        Err("the response is longer than 64 KiB".to_owned())
    );
    for pod in [Pod::Hangs, Pod::Drips] {
        assert_eq!(
            post_prepare(pod).await,
            Err("no complete response within 0.4 s".to_owned())
        );
    }
    assert!(post_prepare(Pod::HangsUp).await.is_err());
}

#[tokio::test]
async fn a_redirect_is_an_answer_and_leads_nowhere() {
    let (elsewhere, requests) = serve(answer("200 OK", "", "{}")).await;
    let redirect = answer("302 Found", &format!("Location: http://{elsewhere}/\r\n"), "");
    assert_eq!(post_prepare(redirect).await, Ok((302, 0)));
    assert_eq!(*requests.borrow(), 0);
}

#[tokio::test]
async fn names_come_from_a_file_before_dns() {
    let (address, requests) = serve(answer("200 OK", "", "{}")).await;
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("hosts");
    std::fs::write(&file, "127.0.0.1 db-zone-a-0.db.default.svc.cluster.local.\n").unwrap();
    let network = Network::new(Some(DEADLINE), Some(file), ZoneMetrics::new(&Metrics::default())).unwrap();
    let ask = Ask {
        method: Method::Delete,
        pod: "db-zone-a-0".to_owned(),
        url: format!(
            "http://db-zone-a-0.db.default.svc.cluster.local.:{}/prepare",
            address.port()
        ),
    };
    assert_eq!(
        network.send_request(&ask).await.map(|answer| answer.status),
        Ok(200)
    );
    assert_eq!(*requests.borrow(), 1);
}
