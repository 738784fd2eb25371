//! Files in the agent's own directory that are replaced atomically.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _},
    path::Path,
};

/// Replaces a file atomically.
pub(crate) fn replace(file: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let directory = file.parent().unwrap_or_else(|| Path::new("/"));
    let new = file.with_added_extension("new");
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(mode);
    let mut written = options.open(&new)?;
    written.set_permissions(fs::Permissions::from_mode(mode))?;
    written.write_all(content)?;
    written.sync_all()?;
    drop(written);
    fs::rename(&new, file)?;
    File::open(directory)?.sync_all()
}
