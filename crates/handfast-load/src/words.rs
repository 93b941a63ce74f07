//! Sentences about numbers, and words that were nearly right: from [`handfast_text`], under the names that this crate uses.

pub(crate) use handfast_text::suggest::did_you_mean_or_all as did_you_mean;
pub(crate) use handfast_text::units::counted as things;
