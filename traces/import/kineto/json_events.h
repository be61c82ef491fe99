// Reads the events of a Chrome JSON trace one by one, holding one event in memory. Their meaning is
// decided in kineto.h and own_trace.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "traces/import/byte_source.h"

namespace foretrain::trace_import {

// One member of an event's "args". Numbers are kept as written.
struct JsonArgument {
  std::string name{};
  // of a string or number; "true", "false" or "null"; of a list, its scalars and lists of scalars:
  // "64,1,1", "[8,4],[],2"
  std::string text{};

  // The value as an integer; `nullopt` if it is not a whole number or exceeds int64_t.
  std::optional<std::int64_t> Integer() const;
};

// An event as written. Missing fields are empty.
struct JsonEvent {
  std::string phase{}, name{}, category{}, process{}, thread{}, id{};
  std::string time{}, duration{};  // microseconds, as written

  std::optional<std::int64_t> TimeNs() const;
  std::optional<std::int64_t> DurationNs() const;
  // The member of "args" with that name; null if there is none.
  const JsonArgument* Find(std::string_view name) const;
  std::optional<std::int64_t> Integer(std::string_view name) const;
  std::string_view Text(std::string_view name) const;
  std::size_t argument_count() const { return used_; }
  const JsonArgument& argument(std::size_t i) const { return arguments_[i]; }
  JsonArgument& argument(std::size_t i) { return arguments_[i]; }

  void Clear();
  JsonArgument& Add();

 private:
  std::vector<JsonArgument> arguments_;  // entries from used_ on are kept for reuse
  std::size_t used_ = 0;
};

// Converts a decimal number of microseconds to nanoseconds, rounded down. Exact where a double is
// not: 1.7e15 us since 1970 with three decimals. `nullopt` if it is not finite or beyond +-2^61 ns.
std::optional<std::int64_t> NanosecondsOf(std::string_view microseconds);

// A value outside the events: "distributedInfo" -> "rank" -> "3". `outer` is "" for members of the
// file itself. An empty `name` announces the next object of an array.
struct JsonNote {
  std::string_view outer, name, value;
};

struct JsonSinks {
  std::function<void(const JsonEvent&)> event;
  std::function<void(const JsonNote&)> note;
  // Called every 256 KiB with the file's bytes read and total; false ends the reading with
  // kAborted.
  std::function<bool(std::int64_t, std::int64_t)> go_on{};
};

struct JsonReading {
  std::int64_t events = 0;
  std::int64_t bytes = 0;  // of text
  // byte at which the text ends too early; `nullopt` if it is complete
  std::optional<std::int64_t> cut_at{};
};

// Reads an object with "traceEvents", or an array of events. If the text ends too early because its
// writer was killed, the complete events are kept.
//
// Errors: kCorruptInput, not JSON (with the byte) or not a trace; kAborted; those of the source.
Result<JsonReading> ReadJsonEvents(ByteSource& source, const std::string& path,
                                   const JsonSinks& sinks);

}  // namespace foretrain::trace_import
