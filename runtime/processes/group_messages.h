// Message types between the processes of a run, and the longest text of each. Records have their
// own types: runtime/processes/records.h.
#pragma once

#include <cstdint>

#include "runtime/processes/records.h"

namespace foretrain {

enum GroupMessage : char {
  kFailure = 'F',  // rank and code in 4 bytes each, then text
  kStop = 'S',     // a process asks to stop
  kGrant = 'G',    // number of steps that may begin
  kEnd = 'E',      // final number of steps
  kTime = 'T',     // asks for the time
  kTimeIs = 'U',   // the time, in ns
  kSummary = 'D',  // RunSummary
  kLastOps = 'L',  // the newest ops of a process after a failure, a line each
  kOver = 'O',
  kGoodbye = 'B',
  kPut = 'P',    // name, then value: stores it for its sender
  kGet = 'Q',    // owner, name: asks for a value
  kValue = 'Y',  // owner, name, then value: the answer, once there is one
};

constexpr std::int64_t kMaxTextOfMessage = 1 << 16;
constexpr std::int64_t kMaxTextOfRecord = 1 << 26;
constexpr std::int64_t kMaxTextOfLastOps = 1 << 20;       // 1,024 lines are about 100 kB
constexpr std::int64_t kMaxStep = std::int64_t{1} << 40;  // numbers of steps are below

// Longest message from a rank to rank 0 and from rank 0 to a rank, in bytes; -1 for types that do
// not go that way.
constexpr std::int64_t MaxBytesToFirst(char type) {
  if (IsRecord(type)) return kMaxTextOfRecord;
  if (type == kLastOps) return kMaxTextOfLastOps;
  if (type == kStop || type == kTime || type == kGoodbye) return 0;
  const bool goes = type == kFailure || type == kSummary || type == kPut || type == kGet;
  return goes ? kMaxTextOfMessage : -1;
}
constexpr std::int64_t MaxBytesFromFirst(char type) {
  if (type == kOver || type == kGoodbye) return 0;
  if (type == kGrant || type == kEnd || type == kTimeIs) return 8;
  return type == kFailure || type == kValue ? kMaxTextOfMessage : -1;
}

}  // namespace foretrain
