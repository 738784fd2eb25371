//! The log file of one module: lines are appended; a full file is renamed.

use std::{
    io::{self, SeekFrom},
    path::{Path, PathBuf},
};

use muster_rollout::record::{Case, Origin, Recorder};
use tokio::{
    fs::{self, File, OpenOptions},
    io::{AsyncReadExt as _, AsyncSeekExt as _, AsyncWriteExt as _},
};

/// Messages of clusters are readable only by the owner.
const MODE: u32 = 0o600;

/// A file that is opened for each line, so that it is re-created if another process removes or moves it.
#[derive(Debug)]
pub(super) struct LogFile {
    path: PathBuf,
    recorder: Recorder,
    /// Size in bytes from which it is full.
    limit: u64,
    /// Whether the last line could not be written.
    failing: bool,
}

impl LogFile {
    pub(super) fn new(path: PathBuf, origin: Origin, limit: u64) -> Self {
        Self {
            path,
            recorder: Recorder::new(origin),
            limit,
            failing: false,
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn is_failing(&self) -> bool {
        self.failing
    }

    /// Appends a line, unless it differs from the last one only in its time.
    pub(super) async fn append(&mut self, case: Case) -> io::Result<()> {
        let added = self.add(case).await;
        self.failing = added.is_err();
        if self.failing {
            // A part of the line may have been written.
            self.recorder.begin();
        }
        added
    }

    async fn add(&mut self, case: Case) -> io::Result<()> {
        let mut file = self.open().await?;
        let mut size = file.metadata().await?.len();
        if size >= self.limit || (self.recorder.is_at_the_beginning() && is_torn(&mut file, size).await?) {
            file = self.set_aside().await?;
            size = 0;
        }
        if size == 0 {
            self.recorder.begin();
        }
        if let Some(line) = self.recorder.line(case)? {
            file.write_all(line.as_bytes()).await?;
            file.flush().await?;
        }
        Ok(())
    }

    async fn open(&self) -> io::Result<File> {
        if let Some(directory) = self.path.parent() {
            fs::create_dir_all(directory).await?;
        }
        let mut options = OpenOptions::new();
        options.read(true).append(true).create(true).mode(MODE);
        options.open(&self.path).await
    }

    /// Renames the file to `….1`, replacing the one before, and starts a new one.
    async fn set_aside(&self) -> io::Result<File> {
        let mut aside = self.path.clone().into_os_string();
        aside.push(".1");
        fs::rename(&self.path, aside).await?;
        self.open().await
    }
}

/// Whether the last line is incomplete: the process ended, or the disk was full, while it was written.
async fn is_torn(file: &mut File, size: u64) -> io::Result<bool> {
    let Some(last) = size.checked_sub(1) else {
        return Ok(false);
    };
    file.seek(SeekFrom::Start(last)).await?;
    Ok(file.read_u8().await? != b'\n')
}

#[cfg(test)]
pub(super) mod tests {
    use muster_rollout::{Memory, Millis, Spec, plan, record::Reader};
    use tempfile::TempDir;

    use super::*;

    /// A size for a handful of decisions.
    const LIMIT: u64 = 3000;

    struct Bed {
        directory: TempDir,
        file: LogFile,
    }

    impl Bed {
        fn new() -> Self {
            let directory = tempfile::tempdir().unwrap();
            let file = new(&directory);
            Self { directory, file }
        }

        async fn append(&mut self, at: u64) -> io::Result<()> {
            self.file.append(case(at)).await
        }

        fn path(&self, name: &str) -> PathBuf {
            self.directory.path().join(name)
        }

        fn read(&self, name: &str) -> Result<Vec<u64>, String> {
            times(&self.path(name))
        }
    }

    /// The times of the decisions in a file; a line that cannot be parsed is an error.
    pub(crate) fn times(file: &Path) -> Result<Vec<u64>, String> {
        let mut reader = Reader::default();
        let text = std::fs::read_to_string(file).map_err(|error| error.to_string())?;
        let read = |line: &str| match reader.read(line.as_bytes()) {
            Ok(case) => Ok(case.now.0),
            Err(error) => Err(error.to_string()),
        };
        text.split_terminator('\n').map(read).collect()
    }

    fn new(directory: &TempDir) -> LogFile {
        let origin = Origin {
            module: "Module fleet/web".to_owned(),
            version: "1.0.0".to_owned(),
        };
        LogFile::new(directory.path().join("web"), origin, LIMIT)
    }

    /// A decision at this time that differs from the one before.
    pub(crate) fn case(at: u64) -> Case {
        let spec = Spec {
            min_ready: Millis(at),
            ..Spec::default()
        };
        let memory = Memory::default();
        Case {
            now: Millis(at),
            decision: plan(&spec, &memory, &[], Millis(at)),
            spec,
            memory,
            units: Vec::new(),
        }
    }

    #[tokio::test]
    async fn a_full_file_is_set_aside_and_the_next_begins_whole() {
        let mut bed = Bed::new();
        let mut at = 0;
        while !bed.path("web.1").exists() {
            bed.append(at).await.unwrap();
            at += 1;
        }
        let before = bed.read("web.1").unwrap();
        assert_eq!(before, (0..at - 1).collect::<Vec<_>>());
        assert_eq!(bed.read("web").unwrap(), [at - 1]);
        bed.append(at).await.unwrap();
        assert_eq!(bed.read("web").unwrap(), [at - 1, at]);
        let size = std::fs::metadata(bed.path("web.1")).unwrap().len();
        assert!((LIMIT..2 * LIMIT).contains(&size), "{size}");
    }

    #[tokio::test]
    async fn the_next_process_goes_on_in_the_same_file() {
        let mut bed = Bed::new();
        bed.append(1).await.unwrap();
        bed.append(2).await.unwrap();
        bed.file = new(&bed.directory);
        bed.append(2).await.unwrap();
        assert_eq!(bed.read("web").unwrap(), [1, 2, 2]);
    }

    #[tokio::test]
    async fn a_torn_line_is_set_aside() {
        let mut bed = Bed::new();
        bed.append(1).await.unwrap();
        let whole = std::fs::read_to_string(bed.path("web")).unwrap();
        std::fs::write(bed.path("web"), format!("{whole}{}", &whole[..99])).unwrap();
        bed.file = new(&bed.directory);
        bed.append(2).await.unwrap();
        assert_eq!(bed.read("web").unwrap(), [2]);
        assert!(bed.read("web.1").is_err(), "torn");
    }

    #[tokio::test]
    async fn a_new_file_is_started_when_the_current_one_is_moved_away() {
        let mut bed = Bed::new();
        bed.append(1).await.unwrap();
        std::fs::rename(bed.path("web"), bed.path("taken")).unwrap();
        bed.append(2).await.unwrap();
        assert_eq!(bed.read("taken").unwrap(), [1]);
        assert_eq!(bed.read("web").unwrap(), [2]);
    }

    #[tokio::test]
    async fn what_cannot_be_written_is_left_out_and_then_it_begins_whole() {
        let mut bed = Bed::new();
        bed.append(1).await.unwrap();
        std::fs::remove_file(bed.path("web")).unwrap();
        std::fs::create_dir(bed.path("web")).unwrap();
        bed.append(2).await.unwrap_err();
        std::fs::remove_dir(bed.path("web")).unwrap();
        bed.append(3).await.unwrap();
        assert_eq!(bed.read("web").unwrap(), [3]);
    }

    #[tokio::test]
    async fn it_is_the_owners_alone() {
        use std::os::unix::fs::PermissionsExt as _;
        let mut bed = Bed::new();
        bed.append(1).await.unwrap();
        let mode = std::fs::metadata(bed.path("web")).unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{mode:o}");
    }
}
