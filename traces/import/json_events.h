// Reads the events of a Chrome JSON trace one after another, in the memory of one. Leaves out what
// events mean (kineto.h, own_trace.h).
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

// One member of an event's "args". Numbers are kept as they were written.
struct JsonArgument {
  std::string name{};
  std::string text{};  // of a string or number; "true", "false" or "null"

  // A whole number as written; nothing for others and those beyond int64_t.
  std::optional<std::int64_t> Integer() const;
};

// An event as it was written. What is missing is empty.
struct JsonEvent {
  std::string phase{}, name{}, category{}, process{}, thread{}, id{};
  std::string time{}, duration{};  // microseconds, as written

  std::optional<std::int64_t> TimeNs() const;
  std::optional<std::int64_t> DurationNs() const;
  // The member of "args" of that name, or null.
  const JsonArgument* Find(std::string_view name) const;
  std::optional<std::int64_t> Integer(std::string_view name) const;
  std::string_view Text(std::string_view name) const;
  std::size_t argument_count() const { return used_; }
  const JsonArgument& argument(std::size_t i) const { return arguments_[i]; }

  void Clear();
  JsonArgument& Add();

 private:
  std::vector<JsonArgument> arguments_;  // those from used_ on keep their memory
  std::size_t used_ = 0;
};

// A decimal number of microseconds as whole nanoseconds, rounded down: exact where a double would
// not be (1.7e15 us since 1970 with three decimals). Nothing for what is no finite number or lies
// beyond +-2^61 ns.
std::optional<std::int64_t> NanosecondsOf(std::string_view microseconds);

// What stands beside the events: "distributedInfo" -> "rank" -> "3". `outer` is "" for members of
// the file itself. A new member of an array of objects is announced by an empty `name`.
struct JsonNote {
  std::string_view outer, name, value;
};

struct JsonSinks {
  std::function<void(const JsonEvent&)> event;
  std::function<void(const JsonNote&)> note;
  // Asked every 256 KiB with the file's bytes read and in all; false ends the reading with
  // kAborted.
  std::function<bool(std::int64_t, std::int64_t)> go_on{};
};

struct JsonReading {
  std::int64_t events = 0;
  std::int64_t bytes = 0;                // of text
  std::optional<std::int64_t> cut_at{};  // the text ends too early, at this byte
};

// Reads the text: an object with "traceEvents", or an array of events. A text that ends too early
// (its writer was killed) gives the events that are whole.
//
// Errors: kCorruptInput, no JSON (with the byte), or no trace; kAborted; those of the source.
Result<JsonReading> ReadJsonEvents(ByteSource& source, const std::string& path,
                                   const JsonSinks& sinks);

}  // namespace foretrain::trace_import
