#include "traces/export/memory/pickle_writer.h"

#include <limits>
#include <utility>

#include "base/text.h"

namespace foretrain {
namespace {

constexpr std::size_t kFlushBytes = 64 * 1024;
// Python's own writer ends a batch of members after as many, so that readers need a small stack.
constexpr std::int64_t kBatch = 1000;

}  // namespace

PickleWriter::PickleWriter(std::function<Result<void>(std::string_view)> sink)
    : sink_(std::move(sink)), bytes_("\x80\x04") {}

void PickleWriter::Number(std::uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) bytes_ += static_cast<char>(value >> (8 * i) & 0xFF);
}

void PickleWriter::FlushIfFull() {
  if (bytes_.size() < kFlushBytes) return;
  if (state_.has_value()) state_ = sink_(bytes_);
  bytes_.clear();
}

// A batch ends before the next value, because the value before it may yet be remembered. A dict's
// batch ends between members, which are two values each.
void PickleWriter::Start() {
  FlushIfFull();
  if (levels_.empty()) return;
  Level& level = levels_.back();
  if (level.values >= 2 * kBatch && level.values % 2 == 0) {
    bytes_ += level.is_dict ? "u(" : "e(";
    level.values = 0;
  }
  ++level.values;
}

PickleWriter& PickleWriter::BeginDict() {
  Start();
  bytes_ += "}(";
  levels_.push_back({.is_dict = true});
  return *this;
}

PickleWriter& PickleWriter::EndDict() {
  FT_CHECK(!levels_.empty() && levels_.back().is_dict && levels_.back().values % 2 == 0);
  bytes_ += 'u';
  levels_.pop_back();
  return *this;
}

PickleWriter& PickleWriter::BeginList() {
  Start();
  bytes_ += "](";
  levels_.push_back({.is_dict = false});
  return *this;
}

PickleWriter& PickleWriter::EndList() {
  FT_CHECK(!levels_.empty() && !levels_.back().is_dict);
  bytes_ += 'e';
  levels_.pop_back();
  return *this;
}

PickleWriter& PickleWriter::Text(std::string_view text) {
  const auto known = texts_.find(text);
  if (known != texts_.end()) return Recall(known->second);
  Start();
  const std::string printable = Printable(text, std::numeric_limits<std::size_t>::max());
  const bool is_short = printable.size() < 256;
  bytes_ += is_short ? '\x8c' : 'X';
  Number(printable.size(), is_short ? 1 : 4);
  bytes_ += printable;
  texts_.emplace(text, Remember());
  return *this;
}

PickleWriter& PickleWriter::Integer(std::int64_t value) {
  Start();
  if (value >= 0 && value < 256) {
    bytes_ += 'K';
    Number(static_cast<std::uint64_t>(value), 1);
  } else if (value >= std::numeric_limits<std::int32_t>::min() &&
             value <= std::numeric_limits<std::int32_t>::max()) {
    bytes_ += 'J';
    Number(static_cast<std::uint64_t>(value), 4);
  } else {
    bytes_ += "\x8a\x08";
    Number(static_cast<std::uint64_t>(value), 8);
  }
  return *this;
}

PickleWriter& PickleWriter::Bool(bool value) {
  Start();
  bytes_ += value ? '\x88' : '\x89';
  return *this;
}

PickleWriter& PickleWriter::TupleOfTwo(std::int64_t first, std::int64_t second) {
  Start();
  levels_.push_back({});  // its values are not the list's or dict's
  Integer(first).Integer(second);
  levels_.pop_back();
  bytes_ += '\x86';
  return *this;
}

std::uint32_t PickleWriter::Remember() {
  bytes_ += memo_ < 256 ? 'q' : 'r';
  Number(memo_, memo_ < 256 ? 1 : 4);
  return memo_++;
}

PickleWriter& PickleWriter::Recall(std::uint32_t remembered) {
  Start();
  bytes_ += remembered < 256 ? 'h' : 'j';
  Number(remembered, remembered < 256 ? 1 : 4);
  return *this;
}

Result<void> PickleWriter::Finish() {
  FT_CHECK(levels_.empty());
  bytes_ += '.';
  if (state_.has_value()) state_ = sink_(bytes_);
  bytes_.clear();
  return state_;
}

}  // namespace foretrain
