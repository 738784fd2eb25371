//! The environment of an agent: the host of this process, or a simulated one.

use std::{io, rc::Rc};

use muster_node::{
    ApiServer, Clock, Host, HostClock, Machine,
    disk::{Disk, HostDisk},
    identity,
    journal::Identity,
};

/// Clock, programs and disk of a node, all created in the agent's thread.
pub trait Platform: Send + Sync {
    /// The identity of this boot and of this machine.
    fn identity(&self) -> io::Result<Identity>;
    /// Creates the clock.
    fn clock(&self) -> Rc<dyn Clock>;
    /// Creates access to programs, links, connections, accounts and secrets.
    fn host(&self, clock: Rc<dyn Clock>, api_server: Box<dyn ApiServer>) -> Rc<dyn Host>;
    /// Creates access to the disk below these directories.
    fn disk(&self, directories: Vec<String>) -> Rc<dyn Disk>;
}

/// The host of this process.
#[derive(Clone, Copy, Debug, Default)]
pub struct ThisHost;

impl Platform for ThisHost {
    fn identity(&self) -> io::Result<Identity> {
        identity()
    }

    fn clock(&self) -> Rc<dyn Clock> {
        Rc::new(HostClock)
    }

    fn host(&self, clock: Rc<dyn Clock>, api_server: Box<dyn ApiServer>) -> Rc<dyn Host> {
        Rc::new(Machine::new(clock, api_server))
    }

    fn disk(&self, directories: Vec<String>) -> Rc<dyn Disk> {
        Rc::new(HostDisk::new(directories))
    }
}
