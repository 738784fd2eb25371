//! The style sheet, the script and the favicon. Their URLs contain a hash of their content, so that browsers cache them
//! forever.

use std::sync::LazyLock;

use axum::{
    extract::Path,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};

use crate::page::Assets;

/// Bytes of the hash in a URL.
const HASH: usize = 6;

static STYLE: LazyLock<Asset> = LazyLock::new(|| {
    Asset::new(
        "muster",
        "css",
        "text/css; charset=utf-8",
        include_str!("../../assets/muster.css"),
    )
});
static SCRIPT: LazyLock<Asset> = LazyLock::new(|| {
    Asset::new(
        "muster",
        "js",
        "text/javascript; charset=utf-8",
        include_str!("../../assets/muster.js"),
    )
});
static SIGN: LazyLock<Asset> = LazyLock::new(|| {
    Asset::new(
        "muster",
        "svg",
        "image/svg+xml",
        include_str!("../../assets/muster.svg"),
    )
});
static BUILD: LazyLock<String> = LazyLock::new(|| hash(&[STYLE.content, SCRIPT.content].concat()));

struct Asset {
    address: String,
    type_: &'static str,
    content: &'static str,
}

impl Asset {
    fn new(name: &str, ending: &str, type_: &'static str, content: &'static str) -> Self {
        Self {
            address: format!("assets/{name}-{}.{ending}", hash(content)),
            type_,
            content,
        }
    }
}

/// URLs of the assets, from the root of the dashboard.
pub(super) fn addresses() -> Assets<'static> {
    Assets {
        style: &STYLE.address,
        script: &SCRIPT.address,
        sign: &SIGN.address,
        build: &BUILD,
    }
}

/// Serves an asset.
pub(super) async fn asset(Path(file): Path<String>) -> Response {
    let all: [&Asset; 3] = [&STYLE, &SCRIPT, &SIGN];
    let found = all
        .into_iter()
        .find(|asset| asset.address.strip_prefix("assets/") == Some(&file));
    let Some(asset) = found else {
        return (StatusCode::NOT_FOUND, "there is no such file\n").into_response();
    };
    let headers = [
        (header::CONTENT_TYPE, asset.type_),
        (header::CACHE_CONTROL, "public, max-age=31536000, immutable"),
    ];
    (headers, asset.content).into_response()
}

fn hash(content: &str) -> String {
    let hash = Sha256::digest(content.as_bytes());
    HEXLOWER.encode(hash.get(..HASH).unwrap_or_default())
}
