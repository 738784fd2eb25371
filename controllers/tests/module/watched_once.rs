//! Promise: the assemblages of a fleet are watched once, though two controllers read them.

use muster_apiserver::Verb;
use serde_json::json;

use super::bed::*;

#[tokio::test(start_paused = true)]
async fn each_kind_of_assemblage_by_one_watch() {
    let bed = Bed::new(&["eu-1", "eu-2"]).await;
    bed.release("v1", &["web"], "one");
    bed.deploy("web", "v1", json!({})).await;
    bed.until_ready("web").await;
    bed.release("v2", &["web"], "two");
    bed.patch("web", version("v2")).await;
    bed.until("v2 in both clusters", || async {
        (bed.texts("web").await == ["two", "two"]).then_some(())
    })
    .await;
    for kind in ["proxyassemblages", "remoteassemblages"] {
        let requests = bed.management.recorder().requests();
        let watches = requests
            .iter()
            .filter(|request| request.verb == Some(Verb::Watch) && request.path.ends_with(kind));
        let clients: Vec<&str> = watches.map(|request| request.client.as_str()).collect();
        assert_eq!(clients, ["controller"], "{kind}");
    }
}
