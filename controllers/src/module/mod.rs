//! The Module and BootstrapModule controllers.
