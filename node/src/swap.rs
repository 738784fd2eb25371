//! The files of a plan on the disk: prepared, swapped, restored, and cleaned up. Each of these can be repeated after an
//! interruption.

use crate::{
    disk::{Disk, DiskError, DiskResult},
    originals::Originals,
    own::Own,
    plan::{self, Draft, Plan, Swap},
};

/// Writes the plan, the originals, the new files and hard links of the old ones, all durable. The targets are
/// unchanged.
pub(crate) fn prepare(draft: &Draft, originals: &mut Originals, own: &Own) -> DiskResult<()> {
    let disk = own.disk.as_ref();
    own.put_json(plan::FILE, &draft.plan, false)?;
    for (head, content) in &draft.originals {
        originals.keep(head.clone(), &content.0)?;
    }
    for (swap, content) in draft.plan.swaps.iter().zip(&draft.contents) {
        for directory in &swap.directories {
            disk.make_dir(directory)?;
            disk.sync_dir(crate::paths::split(directory).0)?;
        }
        if let Some((content, attributes)) = content {
            disk.write_new(&swap.new_name(), &content.0, *attributes)?;
            disk.sync_file(&swap.new_name())?;
        }
        if swap.old.is_some() {
            disk.sync_file(&swap.path)?;
            for name in [swap.old_name(), swap.spare_name()] {
                disk.unlink(&name)?;
                disk.link(&swap.path, &name)?;
            }
        }
    }
    sync(&draft.plan, disk)
}

/// Makes the names in all directories of the plan durable; a directory that was created for a file may be removed with
/// it.
pub(crate) fn sync(plan: &Plan, disk: &dyn Disk) -> DiskResult<()> {
    let synced = plan
        .directories()
        .into_iter()
        .map(|directory| disk.sync_dir(directory));
    synced
        .filter(|done| !done.as_ref().is_err_and(DiskError::is_absent))
        .collect()
}

/// Renames the new file to its target. Refuses if the target is not the file that the plan was prepared for.
pub(crate) fn swap(swap: &Swap, disk: &dyn Disk) -> DiskResult<()> {
    let standing = disk.entry(&swap.path)?.map(|entry| entry.inode);
    if standing != swap.old {
        return Err(DiskError::new(
            "swap what was replaced meanwhile,",
            &swap.path,
            rustix::io::Errno::BUSY,
        ));
    }
    if swap.present {
        disk.rename(&swap.new_name(), &swap.path)
    } else {
        disk.unlink(&swap.path)
    }
}

/// Restores the first `swapped` old files, from links that exist already. All are tried; the first error is returned.
pub(crate) fn restore(plan: &Plan, swapped: usize, disk: &dyn Disk) -> DiskResult<()> {
    let swaps = plan.swaps.iter().take(swapped).rev();
    let done: Vec<DiskResult<()>> = swaps.map(|swap| restore_file(swap, disk)).collect();
    done.into_iter().collect::<DiskResult<()>>()?;
    sync(plan, disk)
}

fn restore_file(swap: &Swap, disk: &dyn Disk) -> DiskResult<()> {
    if swap.old.is_none() {
        return disk.unlink(&swap.path);
    }
    let inode = |path: &str| Ok(disk.entry(path)?.map(|entry| entry.inode));
    let standing = inode(&swap.path)?;
    let (old, spare) = (inode(&swap.old_name())?, inode(&swap.spare_name())?);
    let wanted = old.or(spare).or(swap.old);
    if standing.is_some() && standing == wanted {
        return Ok(());
    }
    // The spare link may be missing after an interrupted restore. If there is no space for it, the last link is used.
    let from = if spare.is_some() || disk.link(&swap.old_name(), &swap.spare_name()).is_ok() {
        swap.spare_name()
    } else {
        swap.old_name()
    };
    disk.rename(&from, &swap.path)
}

/// Removes the plan's files beside its targets, the originals that are no longer needed, and the plan itself.
pub(crate) fn finish(plan: &Plan, confirmed: bool, originals: &mut Originals, own: &Own) -> DiskResult<()> {
    let disk = own.disk.as_ref();
    for swap in &plan.swaps {
        for name in [swap.new_name(), swap.old_name(), swap.spare_name()] {
            disk.unlink(&name)?;
        }
    }
    let given_up = if confirmed { &plan.returned } else { &plan.kept };
    for path in given_up {
        for directory in originals
            .of(path)
            .into_iter()
            .flat_map(|head| head.directories.iter().rev())
        {
            // The directory stays if something else was put into it.
            let _ = disk.remove_dir(directory);
        }
        originals.release(path)?;
    }
    sync(plan, disk)?;
    own.remove(plan::FILE)
}
