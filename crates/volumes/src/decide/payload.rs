//! The files of volumes that hold config maps, secrets, fields of the pod and tokens.
