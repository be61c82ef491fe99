// The letters and numbers of messages between the processes of a run: runtime/processes/records.h
// has those of records.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/processes/socket.h"

namespace foretrain {

constexpr int kMessagePatienceMs = 10'000;  // with a process in the middle of one

// The letters of messages: this, the length of its text in 8 bytes, its text.
enum GroupMessage : char {
  kFailure = 'F',  // rank and code in 4 bytes each, text
  kStop = 'S',     // asked for
  kGrant = 'G',    // steps that may begin
  kEnd = 'E',      // steps that will
  kTime = 'T',     // asked for
  kTimeIs = 'U',   // ns
  kSummary = 'D',  // RunSummary
  kOver = 'O',
  kGoodbye = 'B',
};

inline std::string PackNumber(std::int64_t value) {
  return BytesOfNumber(static_cast<std::uint64_t>(value), 8);
}
inline std::int64_t UnpackNumber(std::string_view text) {
  return static_cast<std::int64_t>(NumberOfBytes(text.substr(0, 8)));
}

}  // namespace foretrain
