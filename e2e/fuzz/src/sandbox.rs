//! A thread that may not open files, run programs or connect: the kernel kills the process if it tries.

/// Runs a function without files, processes and sockets. On systems other than Linux it runs without restriction.
pub fn run<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    let done = std::thread::scope(|scope| {
        let sandboxed = scope.spawn(|| {
            // The allocator inspects the machine once per thread.
            drop(std::hint::black_box(vec![0_u8; 64]));
            #[cfg(target_os = "linux")]
            filter::apply();
            work()
        });
        sandboxed.join()
    });
    done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

#[cfg(target_os = "linux")]
mod filter {
    use std::sync::LazyLock;

    use seccompiler::{BackendError, BpfProgram, SeccompAction, SeccompFilter, TargetArch};

    /// System calls that open or inspect a file, run a program, or connect.
    const FORBIDDEN: &[i64] = &[
        libc::SYS_openat,
        libc::SYS_openat2,
        libc::SYS_newfstatat,
        libc::SYS_statx,
        libc::SYS_faccessat,
        libc::SYS_faccessat2,
        libc::SYS_readlinkat,
        libc::SYS_execve,
        libc::SYS_execveat,
        libc::SYS_socket,
        libc::SYS_connect,
        #[cfg(target_arch = "x86_64")]
        libc::SYS_open,
        #[cfg(target_arch = "x86_64")]
        libc::SYS_creat,
        #[cfg(target_arch = "x86_64")]
        libc::SYS_stat,
        #[cfg(target_arch = "x86_64")]
        libc::SYS_access,
        #[cfg(target_arch = "x86_64")]
        libc::SYS_readlink,
        #[cfg(target_arch = "x86_64")]
        libc::SYS_fork,
        #[cfg(target_arch = "x86_64")]
        libc::SYS_vfork,
    ];

    static PROGRAM: LazyLock<Result<BpfProgram, BackendError>> = LazyLock::new(|| {
        let rules = FORBIDDEN.iter().map(|call| (*call, Vec::new())).collect();
        let arch = TargetArch::try_from(std::env::consts::ARCH)?;
        SeccompFilter::new(rules, SeccompAction::Allow, SeccompAction::Trap, arch)?.try_into()
    });

    /// Restricts the calling thread, irrevocably.
    pub(super) fn apply() {
        let applied = PROGRAM.as_ref().map(|program| seccompiler::apply_filter(program));
        assert!(
            matches!(applied, Ok(Ok(()))),
            "the kernel takes no filter: {applied:?}"
        );
    }
}
