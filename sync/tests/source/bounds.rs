//! Packs that declare or expand to more than allowed: each ends with a specific error, soon, and within 200 MiB of
//! memory. The memory is measured in a separate process, by the kernel.

use std::time::{Duration, Instant};

use crate::support::child::{ChildResult, Work};
use crate::support::git_server::{Door, GitServer, WebServer};
use crate::support::hostile::{self, Liar, Pack, kind};
use crate::support::repo::Repo;
use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::Response;
use futures::StreamExt as _;

const MOST_MIB: u64 = 200;
const MIB: u64 = 1 << 20;

/// Much less than the deadline of a fetch, and enough for a busy machine.
const SOON: Duration = Duration::from_secs(30);

/// Fetches in a separate process.
async fn fetch(url: &str, want: &str, path: Option<&str>) -> ChildResult {
    let data = tempfile::tempdir().unwrap();
    let work = Work {
        path: path.map(str::to_owned),
        ..Work::new(data.path(), url, want)
    };
    let began = Instant::now();
    let outcome = work.run().await;
    println!(
        "{} MiB, {:?}: {:?}",
        outcome.peak_mib,
        began.elapsed(),
        outcome.result
    );
    assert!(began.elapsed() < SOON, "{:?}: {outcome:?}", began.elapsed());
    assert!(outcome.peak_mib < MOST_MIB, "{outcome:?}");
    let left = std::fs::read_dir(data.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let left: Vec<_> = left.filter(|name| name.starts_with("fetch-")).collect();
    assert!(left.is_empty(), "{left:?}");
    outcome
}

async fn refused(what: &str, pack: Vec<u8>, expect: &str) {
    println!("{what}: a pack of {} bytes", pack.len());
    let liar = Liar::start(pack).await;
    let error = fetch(&liar.url(), "main", None).await.result.unwrap_err();
    assert_eq!(error, expect.replace("URL", &liar.url()), "{what}");
    assert!(
        liar.request_count() <= 3,
        "{what}: tried again: {}",
        liar.request_count()
    );
}

#[tokio::test]
async fn what_a_pack_declares_is_checked_before_room_is_made_for_it() {
    refused(
        "a file of 2 GiB",
        Pack::of(1).object(kind::BLOB, 2048 * MIB, &[0; 100]).bytes(),
        "an object of 2147483648 bytes in URL is more than the limit of 1073741824; see --git-max-bytes",
    )
    .await;
    refused(
        "a directory of 100 MiB",
        Pack::of(1).object(kind::TREE, 100 * MIB, &[0; 100]).bytes(),
        "an object of 104857600 bytes in URL that must be held in memory is more than the limit of 33554432; see --git-max-object-bytes",
    )
    .await;
    refused(
        "more objects than there are numbers",
        Pack::of(u32::MAX).object(kind::BLOB, 1, b"a").bytes(),
        "the number of objects (4294967295) in URL is more than the limit of 100000; see --git-max-objects",
    )
    .await;
    refused(
        "a delta that makes 2 GiB",
        Pack::of(2)
            .object(kind::BLOB, 1000, &[0; 1000])
            .delta(12, 1000, 2048 * MIB)
            .bytes(),
        "an object of 2147483648 bytes in URL that must be held in memory is more than the limit of 33554432; see --git-max-object-bytes",
    )
    .await;
}

#[tokio::test]
async fn what_unfolds_is_stopped_where_it_begins() {
    refused(
        "a file that is larger than it says",
        Pack::of(1)
            .object(kind::BLOB, 100, &vec![0; 64 * usize::try_from(MIB).unwrap()])
            .bytes(),
        "URL does not speak git as expected: the pack is damaged: an object is larger than declared",
    )
    .await;
    let whole = 30 * MIB;
    let zeros = vec![0; usize::try_from(whole).unwrap()];
    let mut chain = Pack::of(200);
    let mut base = chain.offset();
    chain.object(kind::BLOB, whole, &zeros);
    for _ in 1..200 {
        let next = chain.offset();
        chain.delta(base, whole, whole);
        base = next;
    }
    refused(
        "a delta chain",
        chain.bytes(),
        "a delta chain with results of 1101004800 bytes in URL is more than the limit of 1073741824; see --git-max-bytes",
    )
    .await;
    let mut named = Pack::of(200);
    named.object(kind::BLOB, whole, &zeros);
    for _ in 1..200 {
        named.delta_of([7; 20], whole, whole);
    }
    refused(
        "deltas of what is named by its hash",
        named.bytes(),
        "a delta chain with results of 1101004800 bytes in URL is more than the limit of 1073741824; see --git-max-bytes",
    )
    .await;
}

#[tokio::test]
async fn what_libgit2_holds_at_most_is_within_the_bound() {
    // The largest allowed pack: a base, and deltas with results of the same total size, each of them just within the
    // limit.
    let whole = 32 * MIB;
    let mut pack = Pack::of(8);
    pack.object(kind::BLOB, whole, &vec![0; usize::try_from(whole).unwrap()]);
    for number in 1..8 {
        pack.delta(12, whole, whole - number);
    }
    let liar = Liar::start(pack.sound()).await;
    let error = fetch(&liar.url(), "main", None).await.result.unwrap_err();
    assert!(
        error.contains("is not on any branch or tag of the server"),
        "{error}"
    );
}

#[tokio::test]
async fn a_list_of_references_that_does_not_end_is_left() {
    let flood = || async {
        let lines: Vec<String> = (0..1000)
            .map(|number| format!("003f{number:040x} refs/heads/{number:06}\n"))
            .collect();
        let lines = Bytes::from(lines.concat());
        let lines = futures::stream::repeat(Ok::<_, std::convert::Infallible>(lines));
        let start = futures::stream::iter([Ok(Bytes::from_static(b"001e# service=git-upload-pack\n0000"))]);
        Response::builder()
            .header("content-type", "application/x-git-upload-pack-advertisement")
            .body(Body::from_stream(start.chain(lines)))
            .unwrap()
    };
    let server = WebServer::start(Router::new().fallback(flood), Door::Plain).await;
    let url = format!("{}/repo", server.origin());
    let error = fetch(&url, "main", None).await.result.unwrap_err();
    assert_eq!(
        error,
        format!(
            "the size of the list of branches and tags of {url} is more than the limit of 25165824; see --git-max-reference-bytes"
        )
    );
}

#[tokio::test]
async fn as_many_references_as_may_be_are_within_the_bound() {
    let many = || async {
        // The first one with capabilities.
        let mut lines = hostile::advertisement();
        lines.truncate(lines.len() - 4);
        for number in 1..380_000 {
            lines.extend_from_slice(format!("003f{number:040x} refs/heads/{number:06}\n").as_bytes());
        }
        lines.extend_from_slice(b"0000");
        Response::builder()
            .header("content-type", "application/x-git-upload-pack-advertisement")
            .body(Body::from(lines))
            .unwrap()
    };
    let server = WebServer::start(Router::new().fallback(many), Door::Plain).await;
    let url = format!("{}/repo", server.origin());
    let error = fetch(&url, "lost", None).await.result.unwrap_err();
    assert!(error.starts_with("branch \"lost\" is not in"), "{error}");
}

#[tokio::test]
async fn a_large_file_beside_the_path_is_streamed() {
    let repo = Repo::new();
    let zeros = std::fs::File::create(repo.path().join("zeros.bin")).unwrap();
    zeros.set_len(220 * MIB).unwrap();
    let commit = repo.commit(&[("deploy/a.yaml", "a: 1\n")]);
    let server = GitServer::start(repo.path(), Door::Plain, None).await;
    let outcome = fetch(&server.url(".git"), "main", Some("deploy")).await;
    assert_eq!(outcome.result.unwrap(), format!("{commit} 1"));
}

#[tokio::test]
async fn a_directory_that_names_one_file_many_times_ends_at_the_limit() {
    let repo = Repo::new();
    let commit = repo.commit_many(150_000);
    let server = GitServer::start(repo.path(), Door::Plain, None).await;
    let error = fetch(&server.url(".git"), &commit, Some("."))
        .await
        .result
        .unwrap_err();
    assert_eq!(
        error,
        "the number of manifests up to \"0010000.yaml\" is more than the limit of 10000; see --git-max-files"
    );
}
