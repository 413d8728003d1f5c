//! Credentials for image pulls, and records of which credentials pulled which image.
