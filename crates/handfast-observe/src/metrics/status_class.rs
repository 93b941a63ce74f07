//! The classes of statuses of HTTP.

use super::counters::labels;
use crate::words::words;

words! {
    /// Class of a status, by its first digit.
    StatusClass {
        /// 101: the connection became a tunnel.
        Informational = "1xx";
        /// 200 to 299.
        Success = "2xx";
        /// 300 to 399.
        Redirection = "3xx";
        /// 400 to 499.
        ClientError = "4xx";
        /// 500 and more.
        ServerError = "5xx";
        /// The request ended without a status: the connection broke first.
        Missing = "none";
    }
}

labels!(StatusClass);

impl StatusClass {
    /// The class of a status.
    #[inline]
    pub fn of(status: Option<u16>) -> Self {
        match status {
            None => Self::Missing,
            Some(..200) => Self::Informational,
            Some(200..300) => Self::Success,
            Some(300..400) => Self::Redirection,
            Some(400..500) => Self::ClientError,
            Some(500..) => Self::ServerError,
        }
    }
}
