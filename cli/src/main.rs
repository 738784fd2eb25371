//! The command `muster`: the processes of an installation, a demo, and the commands to observe and control a fleet.
//!
//! ```text
//!   args ─► run ─┬─► demo, controller, agent, node-agent, zones (wiring of the libraries)
//!                ├─► get, matrix, tree, why, events, rollout (objects ─► view models ─► tables)
//!                ├─► lint                       (files ─► findings)
//!                ├─► dashboard                   (the same view models ─► pages, for a browser)
//!                ├─► build, diff                (a directory on disk ─► objects ─► text)
//!                ├─► hold, release, pin, unpin  (a user's control ─► an annotation that git does not own)
//!                ├─► window bypass              (an exception on record in a RolloutWindow)
//!                ├─► plan-run                    (a control of a plan's run ─► an annotation)
//!                ├─► plan                       (manifests, live objects ─► decisions ─► what a commit would do)
//!                ├─► simulate                   (a fleet file ─► decisions ─► a chart)
//!                ├─► enroll, unenroll           (a context of a kubeconfig ─► a cluster of the fleet)
//!                ├─► check, support-bundle      (live objects ─► findings, a file without secrets)
//!                ├─► replay                     (a record of decisions ─► whether they are reproduced)
//!                └─► reconcile, install, uninstall, crds, completion, man, version
//! ```
//!
//! Invariant: exit code 0 is done, healthy, or no difference; 1 failed or timed out; 2 usage, or could not find out.

#[macro_use]
mod output;

mod agent;
mod args;
mod build;
mod bundle;
mod check;
mod complete;
mod completion;
mod controller;
mod crds;
mod dashboard;
mod demo;
mod diff;
mod enroll;
mod events;
mod exit;
mod explain;
mod flags;
mod get;
mod hold;
mod install;
#[cfg(test)]
mod large;
mod lint;
mod logs;
mod machines;
mod man;
mod matrix;
mod names;
mod node_agent;
mod pin;
mod plan;
mod plan_run;
mod plugin;
mod process;
mod reconcile;
mod release;
mod replay;
mod rollout;
mod show;
mod simulate;
mod steps;
mod tree;
mod unenroll;
mod uninstall;
mod unpin;
mod version;
mod why;
mod window;
mod zones;

use std::{ffi::OsString, io, process::ExitCode};

use anstream::ColorChoice;
use clap::FromArgMatches as _;
use muster_fleet::trouble;
use tokio::runtime::{Builder, Runtime};

use args::Arguments;
use exit::{READER_GONE, UNKNOWN};
use output::{Out, Unwritten};
use plugin::CalledAs;

/// Decisions allocate and free many small blocks across threads.
#[global_allocator]
static MEMORY: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let runtime = match runtime() {
        Ok(runtime) => runtime,
        Err(error) => {
            complain!(
                Out::new(ColorChoice::Auto, false),
                "error: the process cannot start its threads: {error}"
            );
            return ExitCode::from(UNKNOWN);
        }
    };
    let code = runtime.block_on(answer());
    // Does not wait for threads that still block, such as a credential plugin.
    runtime.shutdown_background();
    code
}

/// The agent of a node is small, and a process that enters the namespace of the host must have one thread.
fn runtime() -> io::Result<Runtime> {
    if std::env::args_os()
        .nth(1)
        .is_some_and(|verb| verb == "node-agent")
    {
        return Builder::new_current_thread().enable_all().build();
    }
    Runtime::new()
}

async fn answer() -> ExitCode {
    let words = typed();
    let called_as = CalledAs::by(words.first());
    // One TLS provider for the whole process; only a second call could fail.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let out = Out::new(ColorChoice::Auto, false);
    if let Some(code) = complete::answer(&words) {
        return ExitCode::from(code);
    }
    if called_as == CalledAs::Completer {
        return ExitCode::from(complete::complete(words, &out));
    }
    // The parsed arguments always match the definition: clap ends the process with code 2 for either error.
    let matches = called_as.command().get_matches_from(words);
    let arguments = Arguments::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    let Arguments {
        cluster,
        manner,
        verb,
    } = arguments;
    let (target, out) = (cluster.target(), manner.begin());
    let code = match verb.run(&target, &out).await {
        Ok(code) => code,
        Err(error) if matches!(error.downcast_ref(), Some(Unwritten::ReaderGone)) => READER_GONE,
        Err(error) => {
            complain!(out, "error: {}", trouble::describe_error(&error, &target).await);
            UNKNOWN
        }
    };
    ExitCode::from(code)
}

/// The arguments as typed. `cargo demo -- --tour` passes its `--` on, which only concerns cargo.
fn typed() -> Vec<OsString> {
    let mut words: Vec<OsString> = std::env::args_os().collect();
    if words.get(1).is_some_and(|verb| verb == "demo") && words.get(2).is_some_and(|word| word == "--") {
        words.remove(2);
    }
    words
}
