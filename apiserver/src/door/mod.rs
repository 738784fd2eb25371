//! The two ways to access the server: in process without a socket, and HTTPS on loopback.

mod credentials;
mod https;
mod in_process;
mod kubeconfig;

pub(crate) use credentials::Credentials;
pub use credentials::{CredentialsError, Identity};
pub use https::ListenError;
pub(crate) use https::open_https;
pub use in_process::InProcess;
pub use kubeconfig::Login;
pub(crate) use kubeconfig::kubeconfig;
