//! Reads JSON of an older or newer program into the types of this one, with text that is fit for a terminal. A field that is missing, or has
//! another type, is zero, empty or `None`; an unknown field is ignored.

use handfast_text::units::plain;
use serde::de::value::{Error, MapDeserializer, SeqDeserializer};
use serde::de::{Deserialize, Deserializer, IntoDeserializer, Visitor};
use serde::forward_to_deserialize_any;
use serde_json::Value;

/// Reads `json` as far as it fits.
///
/// **Errors**: a word that an enum without `#[serde(other)]` does not have.
pub(super) fn read<'de, T: Deserialize<'de>>(json: Value) -> Result<T, Error> {
    T::deserialize(Tolerant(json))
}

struct Tolerant(Value);

impl Tolerant {
    fn text(&self) -> String {
        plain(self.0.as_str().unwrap_or_default())
    }
}

impl IntoDeserializer<'_> for Tolerant {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

impl<'de> Deserializer<'de> for Tolerant {
    type Error = Error;

    /// Only for types that take any JSON.
    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_unit()
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_bool(self.0 == true)
    }

    fn deserialize_u32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_u32(u32::try_from(self.0.as_u64().unwrap_or_default()).unwrap_or(u32::MAX))
    }

    fn deserialize_u64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_u64(self.0.as_u64().unwrap_or_default())
    }

    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_f64(self.0.as_f64().unwrap_or_default())
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_string(self.text())
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        if self.0.is_null() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_seq<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Error> {
        let items = self.0.as_array_mut().map(std::mem::take).unwrap_or_default();
        visitor.visit_seq(SeqDeserializer::new(items.into_iter().map(Self)))
    }

    fn deserialize_map<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Error> {
        let entries = self.0.as_object_mut().map(std::mem::take).unwrap_or_default();
        visitor.visit_map(MapDeserializer::new(
            entries.into_iter().map(|(key, value)| (plain(&key), Self(value))),
        ))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        mut self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        let mut field = |name| Self(self.0.get_mut(name).map(Value::take).unwrap_or_default());
        visitor.visit_map(MapDeserializer::new(fields.iter().map(|name| (*name, field(*name)))))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_enum(self.text().into_deserializer())
    }

    forward_to_deserialize_any! {
        i8 i16 i32 i64 i128 u8 u16 u128 f32 char str bytes byte_buf unit unit_struct newtype_struct tuple tuple_struct identifier
        ignored_any
    }
}
