//! Promise: the story of the README works in a terminal: a bad version stops at the first cluster, `why` shows what
//! failed, and a revert restores everything. With `MUSTER_RECORD=FILE` the session is written there as an animated SVG.

#![allow(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a helper that fails fails its test"
)]

use std::{
    env, fs,
    io::{Read as _, Write as _},
    sync::mpsc,
    time::{Duration, Instant},
};

use muster_e2e::bed::muster;
use portable_pty::{CommandBuilder, PtySize, native_pty_system};

#[path = "support/demo.rs"]
mod demo;
#[path = "support/film.rs"]
mod film;

use demo::{Demo, READY};
use film::Frame;

const ROWS: u16 = 28;
const COLUMNS: u16 = 100;
const PROMPT: &str = "$";
/// How long a command may take.
const SOON: Duration = Duration::from_mins(2);
/// Output within this time belongs to the same frame.
const TOGETHER: Duration = Duration::from_millis(60);
/// The longest time that a frame of a moving part is shown.
const STILL: Duration = Duration::from_millis(300);
/// How long the final output of a command is shown; less if there is none.
const READ: Duration = Duration::from_secs(3);
const GLANCE: Duration = Duration::from_millis(600);

/// The commands, and the expected output of each.
const STORY: &[(&str, &str)] = &[
    ("muster matrix", "● v1.0.0"),
    (
        "sed -i 's/podinfo:6.0.0/podinfo:bad/' apps/podinfo/deployment.yaml",
        PROMPT,
    ),
    ("sed -i 's/tag: v1.0.0/tag: v1.1.0/' modules/podinfo.yaml", PROMPT),
    ("git commit -qam 'podinfo bad' && git tag v1.1.0", PROMPT),
    ("muster rollout status module/podinfo --tag v1.1.0", "✗ Failed"),
    ("clear", PROMPT),
    ("muster why module/podinfo", "ImagePullBackOff"),
    ("git revert --no-edit HEAD | head -1", "Revert"),
    ("muster rollout status module/podinfo --tag v1.0.0", "Succeeded"),
];
/// The frame for viewers who prefer no motion: the output of `why`.
const ANSWER: usize = 6;

#[test]
#[ignore = "long: cargo xtask long"]
fn the_demo_commands_run_in_a_terminal() {
    let directory = tempfile::tempdir().unwrap();
    let mut demo = Demo::start(directory.path(), &[]);
    demo.until_printed(READY, |printed| printed.contains("Everything is up to date"));
    let mut shell = Shell::start(&demo);
    let mut still = 0;
    for (place, (typed, shown)) in STORY.iter().enumerate() {
        shell.types(typed);
        shell.rest(if *shown == PROMPT { GLANCE } else { READ });
        let screen = shell.screen.screen().contents();
        assert!(screen.contains(shown), "{typed}: {shown} is not shown:\n{screen}");
        if place == ANSWER {
            still = shell.frames.len() - 1;
        }
    }
    let lasts: Duration = shell.frames.iter().map(|frame| frame.lasts).sum();
    let picture = film::picture(
        &shell.frames,
        still,
        "A bad version, in a terminal",
        "A commit ships a bad version of podinfo; muster stops it at the first cluster and shows why, and a git revert restores everything.",
    );
    println!(
        "{} frames, {lasts:?}, {} bytes",
        shell.frames.len(),
        picture.len()
    );
    assert!(shell.frames[still].text().contains("ImagePullBackOff"));
    assert!(lasts < Duration::from_mins(1), "too long to watch: {lasts:?}");
    assert!(picture.len() < 400_000, "too large for a page: {}", picture.len());
    if let Some(file) = env::var_os("MUSTER_RECORD") {
        fs::write(file, picture).unwrap();
    }
    demo.end();
}

/// A shell on a terminal.
struct Shell {
    keys: Box<dyn std::io::Write + Send>,
    output: mpsc::Receiver<Vec<u8>>,
    screen: vt100::Parser,
    frames: Vec<Frame>,
}

impl Shell {
    fn start(demo: &Demo) -> Self {
        let size = PtySize {
            rows: ROWS,
            cols: COLUMNS,
            pixel_width: 0,
            pixel_height: 0,
        };
        let pair = native_pty_system().openpty(size).unwrap();
        let mut command = CommandBuilder::new("bash");
        command.args(["--norc", "--noprofile"]);
        command.cwd(demo.directory.join("fleet"));
        let path = env::var("PATH").unwrap();
        command.env("PATH", format!("{}:{path}", muster().parent().unwrap().display()));
        command.env("KUBECONFIG", demo.directory.join("management.kubeconfig"));
        command.env("PS1", format!("{PROMPT} "));
        command.env("TERM", "xterm-256color");
        // Disables bracketed paste and colors of the shell.
        command.env("INPUTRC", "/dev/null");
        command.env_remove("NO_COLOR");
        drop(pair.slave.spawn_command(command).unwrap());
        drop(pair.slave);
        let mut reader = pair.master.try_clone_reader().unwrap();
        let (sender, output) = mpsc::channel();
        std::thread::spawn(move || {
            let mut some = [0; 8192];
            while let Ok(read @ 1..) = reader.read(&mut some) {
                if sender.send(some[..read].to_vec()).is_err() {
                    return;
                }
            }
        });
        let mut shell = Self {
            keys: pair.master.take_writer().unwrap(),
            output,
            screen: vt100::Parser::new(ROWS, COLUMNS, 0),
            frames: Vec::new(),
        };
        // The terminal lives as long as the test.
        std::mem::forget(pair.master);
        shell.until_it_asks();
        shell.frames.clear();
        shell
    }

    /// Types a line, and waits until the shell asks for the next.
    fn types(&mut self, line: &str) {
        for word in line.split_inclusive(' ') {
            self.keys.write_all(word.as_bytes()).unwrap();
            self.keys.flush().unwrap();
            self.hear(TOGETHER);
        }
        self.keys.write_all(b"\r").unwrap();
        self.keys.flush().unwrap();
        self.hear(TOGETHER);
        self.until_it_asks();
    }

    /// Shows the current screen for this time.
    fn rest(&mut self, lasts: Duration) {
        if let Some(last) = self.frames.last_mut() {
            last.lasts = lasts;
        }
    }

    fn until_it_asks(&mut self) {
        let began = Instant::now();
        loop {
            self.hear(TOGETHER);
            let screen = self.screen.screen();
            let (row, _) = screen.cursor_position();
            let line = screen.rows(0, COLUMNS).nth(row.into()).unwrap_or_default();
            if line.trim() == PROMPT {
                return;
            }
            assert!(began.elapsed() < SOON, "not in time:\n{}", screen.contents());
        }
    }

    /// Output within a moment forms one frame, if the screen has changed.
    fn hear(&mut self, moment: Duration) {
        let until = Instant::now() + moment;
        let mut is_news = false;
        while let Ok(bytes) = self
            .output
            .recv_timeout(until.saturating_duration_since(Instant::now()))
        {
            self.screen.process(&bytes);
            is_news = true;
        }
        if is_news {
            let mut frame = Frame::of(self.screen.screen());
            if self.frames.last().is_none_or(|last| last.lines != frame.lines) {
                frame.lasts = TOGETHER;
                self.frames.push(frame);
            }
        } else if let Some(last) = self.frames.last_mut() {
            last.lasts = (last.lasts + moment).min(STILL);
        }
    }
}
