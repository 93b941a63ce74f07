//! Stub.
use crate::model::Service;
/// Stub.
#[derive(Debug)]
pub struct RequestTable;
impl RequestTable {
    /// Stub.
    pub fn new(_: &Service) -> Self { Self }
    /// Stub.
    pub fn find(&self, _: &[u8], _: &[u8], _: &[u8], _: impl Fn(&str, Option<&str>) -> bool) -> Option<usize> { None }
}
