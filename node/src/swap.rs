//! Files of a plan on the disk: prepared, swapped, brought back, and cleared away. Each of these may be done again after it was cut short.

use crate::{
    disk::{Disk, DiskError, DiskResult},
    originals::Originals,
    own::Own,
    plan::{self, Draft, Plan, Swap},
};

/// Writes the plan, the originals, the new files and the second names of the old ones, all durable. The targets are untouched.
pub(crate) fn prepare(draft: &Draft, originals: &mut Originals, own: &Own) -> DiskResult<()> {
    let disk = own.disk.as_ref();
    own.put_json(plan::FILE, &draft.plan, false)?;
    for (head, content) in &draft.originals {
        originals.keep(head.clone(), &content.0)?;
    }
    for (swap, content) in draft.plan.swaps.iter().zip(&draft.contents) {
        for folder in &swap.folders {
            disk.make_dir(folder)?;
            disk.sync_dir(crate::paths::split(folder).0)?;
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

/// Makes the names in all folders of the plan durable; a folder that was made for a file may be gone with it.
pub(crate) fn sync(plan: &Plan, disk: &dyn Disk) -> DiskResult<()> {
    let synced = plan.folders().into_iter().map(|folder| disk.sync_dir(folder));
    synced
        .filter(|done| !done.as_ref().is_err_and(DiskError::is_absent))
        .collect()
}

/// Gives the new file its name. Refuses if another file stands there than the one that was prepared for.
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

/// Brings the first `swapped` old files back, by names that exist already. All are tried; the first error is given.
pub(crate) fn restore(plan: &Plan, swapped: usize, disk: &dyn Disk) -> DiskResult<()> {
    let swaps = plan.swaps.iter().take(swapped).rev();
    let done: Vec<DiskResult<()>> = swaps.map(|swap| bring_back(swap, disk)).collect();
    done.into_iter().collect::<DiskResult<()>>()?;
    sync(plan, disk)
}

fn bring_back(swap: &Swap, disk: &dyn Disk) -> DiskResult<()> {
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
    // The spare name is gone where an earlier restore was cut short. Without space for it, the last name has to do.
    let from = if spare.is_some() || disk.link(&swap.old_name(), &swap.spare_name()).is_ok() {
        swap.spare_name()
    } else {
        swap.old_name()
    };
    disk.rename(&from, &swap.path)
}

/// Clears away what the plan has beside its targets, gives up the originals that are no longer needed, and the plan with them.
pub(crate) fn finish(plan: &Plan, confirmed: bool, originals: &mut Originals, own: &Own) -> DiskResult<()> {
    let disk = own.disk.as_ref();
    for swap in &plan.swaps {
        for name in [swap.new_name(), swap.old_name(), swap.spare_name()] {
            disk.unlink(&name)?;
        }
    }
    let given_up = if confirmed { &plan.returned } else { &plan.kept };
    for path in given_up {
        for folder in originals
            .of(path)
            .into_iter()
            .flat_map(|head| head.folders.iter().rev())
        {
            // It stays where something else has come into it.
            let _ = disk.remove_dir(folder);
        }
        originals.forget(path)?;
    }
    sync(plan, disk)?;
    own.remove(plan::FILE)
}
