#include "traces/import/op_ids.h"

#include <algorithm>

#include "base/hash.h"
#include "traces/unknown_coordinates.h"

namespace foretrain::trace_import {
namespace {

constexpr int kOps = kWholeInstruction;  // op numbers in one part
constexpr int kParts = 64;
constexpr int kCallsInPart = 64;
constexpr std::int64_t kNumbers = std::int64_t{kOps} * kParts;
// Above this number of names the table gets full and probing slow: further names share the last
// number.
constexpr std::int64_t kMaxNames = kNumbers / 2;

}  // namespace

// Open addressing over the 18-bit hash: the next free number on a collision. The first name to
// arrive keeps its own hash, so ids agree between runs unless their names collide in another order.
std::int64_t OpIds::NumberOf(std::string_view name) {
  const auto [at, is_new] = numbers_.try_emplace(std::string(name), kNumbers - 1);
  if (!is_new || std::ssize(numbers_) > kMaxNames) return at->second;
  std::int64_t number = static_cast<std::int64_t>(HashText(name) % kNumbers);
  while (!taken_.try_emplace(number, true).second) number = (number + 1) % kNumbers;
  return at->second = number;
}

// Calls of one op in one step of one rank are told apart by a counter. It is capped, so that a loop
// with very many calls reuses the last id instead of overflowing the field.
OpId OpIds::Next(const CallKey& key, std::string_view name, int rank, std::int32_t step) {
  const std::int64_t number = NumberOf(name);
  const int op = static_cast<int>(number % kOps);
  const int part = static_cast<int>(number / kOps);
  InstructionKey made{.kind = key.kind, .pass = key.pass, .block = kUnknownBlock};
  if (key.layer >= 0 && key.layer < kUnknownBlock - 1) made.block = key.layer + 1;
  const bool known = key.micro_batch >= 0 && key.micro_batch < kUnknownMicroBatch;
  made.micro_batch = known ? key.micro_batch : kUnknownMicroBatch;
  made.part = part * kCallsInPart;
  const OpId first = PackId(made, op);
  const std::int64_t where = (std::int64_t{rank} << 32) + step;
  int& calls = calls_[{first, where}];
  if (known) {
    made.part += std::min(calls, kCallsInPart - 1);
  } else {
    made.micro_batch += std::min(calls, kUnknownMicroBatch - 1);
  }
  ++calls;
  const OpId id = PackId(made, op);
  names_.try_emplace(NameKey(id), name);
  return id;
}

}  // namespace foretrain::trace_import
