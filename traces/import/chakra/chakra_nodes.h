// The graph in a file of Chakra, as it stands there. chakra_trace.h makes events of it.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "traces/chakra/schema.h"
#include "traces/import/byte_source.h"

namespace foretrain::trace_import {

inline constexpr std::int64_t kMaxChakraRank = (1 << 15) - 1;

// Runs one node at a time.
enum class ChakraResource : std::uint8_t { kHost, kCompute, kCollective, kSend, kReceive, kCopy };
inline constexpr std::array<std::string_view, 6> kChakraResourceNames{
    "host", "compute", "collectives", "sends", "receives", "copies"};

struct ChakraNode {
  std::uint64_t id = 0;
  std::string name{};
  chakra::NodeType type = chakra::NodeType::kInvalid;
  bool on_host = false;
  std::int64_t start_ns = -1;  // -1: unknown
  std::int64_t duration_ns = 0;
  std::int64_t bytes = 0;
  int collective = 0;
  std::string group{};
  std::int64_t source = -1, destination = -1;
  std::string op_class{};
  std::vector<std::uint64_t> dependencies{};  // data
  std::vector<std::uint64_t> control{};

  ChakraResource resource() const {
    if (on_host) return ChakraResource::kHost;
    switch (type) {
      case chakra::NodeType::kCollective:
        return ChakraResource::kCollective;
      case chakra::NodeType::kSend:
        return ChakraResource::kSend;
      case chakra::NodeType::kReceive:
        return ChakraResource::kReceive;
      case chakra::NodeType::kMemoryLoad:
      case chakra::NodeType::kMemoryStore:
        return ChakraResource::kCopy;
      default:
        return ChakraResource::kCompute;
    }
  }
  // Metadata and invalid nodes only order others.
  bool IsWork() const { return type >= chakra::NodeType::kMemoryLoad; }
};

struct ChakraGraph {
  std::vector<ChakraNode> nodes{};
  std::map<std::string, std::string> groups{};  // members by name, "[0, 4]"
  std::optional<std::int64_t> cut_at{};         // the byte at which the file ends too early
};

// Reads all messages of a file. Errors: those of ReadChakraTrace.
Result<ChakraGraph> ReadChakraGraph(ByteSource& bytes, std::string_view path,
                                    const std::function<bool()>& go_on);

// Gives each node a start. List scheduling: of the nodes that are ready, the one that was ready
// first starts first on its resource. Data dependencies count, as in simulators; in traces of
// PyTorch control dependencies lead to the op that calls another, which may end after it. They
// count if no node has data dependencies. Returns the number of nodes in a circle or behind one:
// they never become ready and keep no start. O(n log n).
std::int64_t ScheduleChakra(std::vector<ChakraNode>& nodes);

}  // namespace foretrain::trace_import
