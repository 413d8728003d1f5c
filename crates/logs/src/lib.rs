//! Rotation of container logs.
