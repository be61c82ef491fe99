// Codes that follow each tensor's bytes between processes, so that damage or a change on the way is
// found.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/processes/peer_transport.h"
#include "runtime/run/rank_world.h"

namespace foretrain {

// kCrc32c finds damage, kHmac also changes by someone in between.
enum class TransferCheck { kNone, kCrc32c, kHmac };

// The codes of one member of a communicator. Both ends of a direction compute them in the order of
// its calls.
class TransferCodes {
 public:
  //   run_key  known to the run's ranks alone, and new in each run
  TransferCodes(TransferCheck check, const std::string& run_key, const ChannelKey& key, int member);

  bool IsOn() const { return check_ != TransferCheck::kNone; }
  // The code of a piece that is about to be sent or has been received.
  std::string Of(const Piece& piece);

 private:
  // A key for each direction: bytes that are sent back to their sender fail. A number for each
  // code: bytes of an earlier call fail.
  struct Direction {
    std::string key;
    std::uint64_t number = 0;
  };

  const TransferCheck check_;
  std::vector<Direction> sent_, received_;  // by the other member
};

}  // namespace foretrain
