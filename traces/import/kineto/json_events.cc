#include "traces/import/kineto/json_events.h"

#include <array>
#include <charconv>
#include <cmath>
#include <istream>
#include <nlohmann/json.hpp>
#include <streambuf>

#include "base/text.h"

namespace foretrain::trace_import {
namespace {

constexpr std::size_t kChunk = 256 * 1024;
constexpr std::size_t kLongestText = 64 * 1024;  // of a name; longer ones are cut
constexpr std::size_t kMaxArguments = 256;
constexpr std::int64_t kMaxNs = std::int64_t{1} << 61;  // since 1970: the year 2043

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// A ByteSource as the stream buffer that the JSON parser reads. It refills by 256 KiB and remembers
// the source's error, which a stream cannot carry.
class SourceBuffer final : public std::streambuf {
 public:
  SourceBuffer(ByteSource& source, const JsonSinks& sinks)
      : source_(source), sinks_(sinks), chunk_(kChunk) {}

  const std::optional<Error>& error() const { return error_; }
  bool ended() const { return ended_; }
  std::int64_t bytes() const { return before_ + (gptr() - eback()); }

 protected:
  int_type underflow() override {
    if (error_.has_value() || ended_) return traits_type::eof();
    if (sinks_.go_on && !sinks_.go_on(source_.file_bytes_read(), source_.file_bytes())) {
      error_ = Error{ErrorCode::kAborted, "the import was stopped"};
      return traits_type::eof();
    }
    before_ += egptr() - eback();
    const Result<std::int64_t> read = source_.Read(chunk_);
    if (!read.has_value()) error_ = read.error();
    const std::int64_t bytes = read.has_value() ? *read : 0;
    ended_ = bytes == 0;
    setg(chunk_.data(), chunk_.data(), chunk_.data() + bytes);
    return bytes == 0 ? traits_type::eof() : traits_type::to_int_type(chunk_[0]);
  }

 private:
  ByteSource& source_;
  const JsonSinks& sinks_;
  std::vector<char> chunk_;
  std::int64_t before_ = 0;
  bool ended_ = false;
  std::optional<Error> error_;
};

// Follows the text by nesting depth: members of the file lie at depth 1, events one below their
// array. Only the current event is kept, so memory does not grow with the file.
class Handler final : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit Handler(const JsonSinks& sinks) : sinks_(sinks) {}

  bool null() override { return Value("null"); }
  bool boolean(bool value) override { return Value(value ? "true" : "false"); }
  bool number_integer(number_integer_t value) override { return Integer(value); }
  bool number_unsigned(number_unsigned_t value) override { return Integer(value); }
  bool number_float(number_float_t, const string_t& text) override { return Value(text); }
  bool string(string_t& value) override { return Value(value); }
  bool binary(binary_t&) override { return false; }

  // An object is an event, an event's "args", or a note outside the events; deeper ones are
  // ignored.
  bool start_object(std::size_t) override {
    ++depth_;
    if (InEvents() && depth_ == event_depth_) {
      event_.Clear();
      is_event_ = true;
    } else if (is_event_ && depth_ == event_depth_ + 1) {
      in_arguments_ = key_ == "args";
    } else if (depth_ >= 2 && !InEvents()) {
      if (depth_ == 2) outer_ = key_;
      sinks_.note({outer_, "", ""});
    }
    return true;
  }
  bool end_object() override {
    if (is_event_ && depth_ == event_depth_) {
      is_event_ = false;
      ++events_;
      sinks_.event(event_);
    }
    if (depth_ == event_depth_ + 1) in_arguments_ = false;
    Leave();
    return true;
  }
  // The events are the top-level array, or the array "traceEvents" of the top-level object.
  bool start_array(std::size_t) override {
    ++depth_;
    if (depth_ == 1 || (depth_ == 2 && !is_array_ && key_ == "traceEvents")) {
      is_array_ = depth_ == 1;
      event_depth_ = depth_ + 1;
      found_events_ = true;
      in_events_ = true;
    } else if (depth_ == 2) {
      outer_ = key_;
    } else if (in_arguments_ && depth_ == event_depth_ + 2 &&
               event_.argument_count() < kMaxArguments) {
      event_.Add().name.assign(key_);
      event_.argument(event_.argument_count() - 1).text.clear();
      in_list_ = true;
      follows_ = false;
    } else if (in_list_ && depth_ == event_depth_ + 3) {
      BeginInnerList();
    }
    return true;
  }
  bool end_array() override {
    if (in_list_ && depth_ == event_depth_ + 3) EndInnerList();
    if (depth_ == event_depth_ + 2) in_list_ = false;
    if (in_events_ && depth_ == event_depth_ - 1) in_events_ = false;
    Leave();
    return true;
  }
  bool key(string_t& value) override {
    key_.assign(value, 0, kLongestText);
    return true;
  }
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception& error) override {
    position_ = static_cast<std::int64_t>(position);
    what_ = error.what();
    return false;
  }

  std::int64_t events() const { return events_; }
  bool found_events() const { return found_events_; }
  std::int64_t position() const { return position_; }
  const std::string& what() const { return what_; }

 private:
  // True inside the array of events, at any depth.
  bool InEvents() const { return in_events_ && depth_ >= event_depth_ - 1; }
  void Leave() {
    --depth_;
    if (depth_ == 1) outer_.clear();
  }
  template <class T>
  bool Integer(T value) {
    std::array<char, 24> digits{};
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value);
    return Value({digits.data(), static_cast<std::size_t>(end.ptr - digits.data())});
  }

  // Stores a scalar in the current event or its "args", or passes it on as a note. Texts and the
  // number of arguments are bounded. A list in "args" becomes one text; deeper structures inside an
  // event are ignored.
  bool Value(std::string_view value) {
    value = value.substr(0, kLongestText);
    if (is_event_) {
      if (depth_ == event_depth_) {
        if (std::string* const field = Field(); field != nullptr) field->assign(value);
      } else if (in_arguments_ && depth_ == event_depth_ + 1 &&
                 event_.argument_count() < kMaxArguments) {
        JsonArgument& argument = event_.Add();
        argument.name.assign(key_);
        argument.text.assign(value);
      } else if (in_list_ && (depth_ == event_depth_ + 2 || depth_ == event_depth_ + 3)) {
        AppendToList(value);
      }
    } else if (!InEvents() && depth_ >= 1) {
      sinks_.note({outer_, key_, value});
    }
    return true;
  }

  // The list's text is bounded like any other: what is too much is left out.
  void AppendToList(std::string_view value) {
    std::string& text = event_.argument(event_.argument_count() - 1).text;
    if (text.size() + value.size() + 2 >= kLongestText) return;
    if (follows_) text += ',';
    text += value;
    follows_ = true;
  }
  void BeginInnerList() {
    AppendToList("[");
    follows_ = false;
  }
  // A list that did not fit has no bracket to close.
  void EndInnerList() {
    std::string& text = event_.argument(event_.argument_count() - 1).text;
    if (text.size() + 1 < kLongestText) text += ']';
    follows_ = true;
  }

  // The string of the current event for a key; null for keys that are not used.
  std::string* Field() {
    if (key_ == "ph") return &event_.phase;
    if (key_ == "name") return &event_.name;
    if (key_ == "cat") return &event_.category;
    if (key_ == "pid") return &event_.process;
    if (key_ == "tid") return &event_.thread;
    if (key_ == "id") return &event_.id;
    if (key_ == "ts") return &event_.time;
    if (key_ == "dur") return &event_.duration;
    return nullptr;
  }

  const JsonSinks& sinks_;
  JsonEvent event_;
  std::string key_, outer_;
  int depth_ = 0;
  int event_depth_ = 1 << 30;
  bool is_array_ = false, in_events_ = false, found_events_ = false;
  bool is_event_ = false, in_arguments_ = false;
  bool in_list_ = false;  // a list that is a member of "args"
  bool follows_ = false;  // an element of the innermost list came before
  std::int64_t events_ = 0, position_ = 0;
  std::string what_;
};

// The library's reason, without its error number in brackets.
std::string Reason(const std::string& what) {
  const std::size_t at = what.find("] ");
  std::string reason = at == std::string::npos ? what : what.substr(at + 2);
  const std::size_t colon = reason.find(": ");
  if (reason.starts_with("parse error") && colon != std::string::npos) {
    reason = reason.substr(colon + 2);
  }
  return Printable(reason, 200);
}

}  // namespace

// The whole text must be digits: "3.0" and "0x3" are no integers.
std::optional<std::int64_t> JsonArgument::Integer() const {
  std::int64_t value = 0;
  const auto end = std::from_chars(text.data(), text.data() + text.size(), value);
  if (end.ec != std::errc() || end.ptr != text.data() + text.size()) return std::nullopt;
  return value;
}

void JsonEvent::Clear() {
  for (std::string* field : {&phase, &name, &category, &process, &thread, &id, &time, &duration}) {
    field->clear();
  }
  used_ = 0;
}

// Reuses the strings of earlier events, so that reading an event rarely allocates.
JsonArgument& JsonEvent::Add() {
  if (used_ == arguments_.size()) arguments_.emplace_back();
  return arguments_[used_++];
}

std::optional<std::int64_t> JsonEvent::TimeNs() const { return NanosecondsOf(time); }
std::optional<std::int64_t> JsonEvent::DurationNs() const { return NanosecondsOf(duration); }

const JsonArgument* JsonEvent::Find(std::string_view wanted) const {
  for (std::size_t i = 0; i < used_; ++i) {
    if (arguments_[i].name == wanted) return &arguments_[i];
  }
  return nullptr;
}

std::optional<std::int64_t> JsonEvent::Integer(std::string_view wanted) const {
  const JsonArgument* const found = Find(wanted);
  return found == nullptr ? std::nullopt : found->Integer();
}

std::string_view JsonEvent::Text(std::string_view wanted) const {
  const JsonArgument* const found = Find(wanted);
  return found == nullptr ? std::string_view() : std::string_view(found->text);
}

// Digits are read one by one into an integer: a double has no room for nanoseconds since 1970. Only
// numbers with an exponent take the double path, and those lose precision anyway.
std::optional<std::int64_t> NanosecondsOf(std::string_view text) {
  std::size_t at = text.starts_with('-') ? 1 : 0;
  const bool negative = at == 1;
  const bool plain = text.find_first_of("eE") == std::string_view::npos;
  std::int64_t value = 0;
  if (plain) {
    int decimals = -1;  // decimals read; three give nanoseconds
    for (; at < text.size() && decimals < 3; ++at) {
      if (text[at] == '.' && decimals < 0) {
        decimals = 0;
        continue;
      }
      if (!IsDigit(text[at])) return std::nullopt;
      if (value > kMaxNs / 10) return std::nullopt;
      value = value * 10 + (text[at] - '0');
      decimals += decimals >= 0;
    }
    if (text.size() == (negative ? 1U : 0U)) return std::nullopt;
    for (; decimals < 3; ++decimals) {
      if (decimals < 0) decimals = 0;
      if (value > kMaxNs / 10) return std::nullopt;
      value *= 10;
    }
    return negative ? -value : value;
  }
  double number = 0;
  const auto end = std::from_chars(text.data(), text.data() + text.size(), number);
  if (end.ec != std::errc() || end.ptr != text.data() + text.size()) return std::nullopt;
  number *= 1e3;
  if (!(std::abs(number) <= static_cast<double>(kMaxNs))) return std::nullopt;
  return static_cast<std::int64_t>(std::floor(number));
}

// The parser's error position separates a truncated file, which is accepted, from a malformed one.
Result<JsonReading> ReadJsonEvents(ByteSource& source, const std::string& path,
                                   const JsonSinks& sinks) {
  SourceBuffer buffer(source, sinks);
  std::istream stream(&buffer);
  Handler handler(sinks);
  const bool whole = nlohmann::json::sax_parse(stream, &handler);
  if (buffer.error().has_value()) return Fail(buffer.error()->code, buffer.error()->message);
  const std::string where = Printable(path, 512);
  JsonReading reading{.events = handler.events(), .bytes = buffer.bytes(), .cut_at = {}};
  if (!whole) {
    // If only white space follows the error, the text ends too early: the events so far are kept.
    for (int c = buffer.sgetc(); c == ' ' || c == '\n' || c == '\r'; c = buffer.snextc()) {
    }
    if (!buffer.ended() || handler.events() == 0) {
      return Fail(ErrorCode::kCorruptInput, where + ": no JSON at byte " +
                                                std::to_string(handler.position()) + ": " +
                                                Reason(handler.what()) + "; write the trace again");
    }
    reading.cut_at = reading.bytes;
  }
  if (!handler.found_events()) {
    return Fail(
        ErrorCode::kCorruptInput,
        where + ": JSON, but no trace: it has no \"traceEvents\" and is no array of events");
  }
  return reading;
}

}  // namespace foretrain::trace_import
