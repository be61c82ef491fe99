// Tables of a struct's members that JSON objects hold under the same names: one row reads, writes
// and checks a member.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <type_traits>
#include <variant>

#include "base/json/json.h"

namespace foretrain {

// A member of T. A number lies in [low, high]; one whose default lies outside must be given.
template <class T>
struct JsonMember {
  std::string_view name;
  std::variant<bool T::*, int T::*, std::int64_t T::*, double T::*> at;
  double low = 0, high = 0;
};

// Reads the field `name` into the member. A missing field leaves it as it is, unless `required`.
template <class T>
void ReadMember(JsonFields& fields, std::string_view name, const JsonMember<T>& member, T& to,
                bool required = false) {
  const auto read = [&]<class V>(V T::*at) {
    V& value = to.*at;
    if constexpr (std::is_same_v<V, bool>) {
      value = required ? fields.Bool(name) : fields.BoolOr(name, value);
    } else if constexpr (std::is_same_v<V, double>) {
      value = required || value < member.low
                  ? fields.Number(name, member.low, member.high)
                  : fields.NumberOr(name, value, member.low, member.high);
    } else {
      const auto low = static_cast<std::int64_t>(member.low);
      const auto high = static_cast<std::int64_t>(member.high);
      value = static_cast<V>(required || value < low ? fields.Integer(name, low, high)
                                                     : fields.IntegerOr(name, value, low, high));
    }
  };
  std::visit(read, member.at);
}

template <class T, std::size_t kCount>
void ReadMembers(JsonFields& fields, const std::array<JsonMember<T>, kCount>& members, T& to) {
  for (const JsonMember<T>& member : members) ReadMember(fields, member.name, member, to);
}

template <class T>
void WriteMember(JsonWriter& writer, std::string_view name, const JsonMember<T>& member,
                 const T& from) {
  std::visit([&](auto at) { writer.Field(name, from.*at); }, member.at);
}

template <class T, std::size_t kCount>
void WriteMembers(JsonWriter& writer, const std::array<JsonMember<T>, kCount>& members,
                  const T& from) {
  for (const JsonMember<T>& member : members) WriteMember(writer, member.name, member, from);
}

}  // namespace foretrain
