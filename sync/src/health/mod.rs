//! Health of objects by the rules of kstatus.
