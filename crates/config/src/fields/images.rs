//! Images and their pull secrets.

use crate::setting::words;

words! {
    /// For which images a pod must prove its pull secret.
    pub enum ImagePullCredentialsVerificationPolicy {
        /// For none.
        NeverVerify = "NeverVerify",
        /// For images that the agent pulled.
        NeverVerifyPreloadedImages = "NeverVerifyPreloadedImages",
        /// For those that are not on the list.
        NeverVerifyAllowlistedImages = "NeverVerifyAllowlistedImages",
        /// For all.
        AlwaysVerify = "AlwaysVerify",
    }
}
