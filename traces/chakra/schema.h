// Numbers of Chakra's execution traces (schema/protobuf/et_def.proto of
// github.com/mlcommons/chakra): a file has messages one after another, each behind its length as a
// varint. The first is GlobalMetadata, all others are Nodes.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace foretrain::chakra {

enum class NodeType : std::uint8_t {
  kInvalid,
  kMetadata,
  kMemoryLoad,
  kMemoryStore,
  kCompute,
  kSend,
  kReceive,
  kCollective,
};
inline constexpr int kNodeTypeCount = 8;

enum class Collective : std::uint8_t {
  kAllReduce,
  kReduce,
  kAllGather,
  kGather,
  kScatter,
  kBroadcast,
  kAllToAll,
  kReduceScatter,
  kReduceScatterBlock,
  kBarrier,
};
inline constexpr std::array<std::string_view, 10> kCollectiveNames{
    "all_reduce", "reduce",         "all_gather",           "gather", "scatter", "broadcast",
    "all_to_all", "reduce_scatter", "reduce_scatter_block", "barrier"};

// Fields of GlobalMetadata.
inline constexpr int kVersion = 1;
inline constexpr int kMetadataAttribute = 2;
// Fields of Node.
inline constexpr int kId = 1;
inline constexpr int kName = 2;
inline constexpr int kType = 3;
inline constexpr int kControlDependencies = 4;
inline constexpr int kDataDependencies = 5;
inline constexpr int kStartMicros = 6;
inline constexpr int kDurationMicros = 7;
inline constexpr int kInputs = 8;  // IOInfo
inline constexpr int kAttribute = 10;
// Fields of IOInfo.
inline constexpr int kValues = 1;
// Fields of AttributeProto: its name, then one value. Lists are left out.
inline constexpr int kAttributeName = 1;
inline constexpr int kDouble = 3;
inline constexpr int kFloat = 5;
inline constexpr int kInt32 = 7;
inline constexpr int kInt64 = 9;
inline constexpr int kUint32 = 11;
inline constexpr int kUint64 = 13;
inline constexpr int kSint32 = 15;
inline constexpr int kSint64 = 17;
inline constexpr int kFixed32 = 19;
inline constexpr int kFixed64 = 21;
inline constexpr int kSfixed32 = 23;
inline constexpr int kSfixed64 = 25;
inline constexpr int kBool = 27;
inline constexpr int kString = 29;

// Attributes that simulators read. The last three are ours: nanoseconds, and an op class.
inline constexpr std::string_view kIsCpuOp = "is_cpu_op";
inline constexpr std::string_view kCommType = "comm_type";
inline constexpr std::string_view kCommSize = "comm_size";
inline constexpr std::string_view kCommSource = "comm_src";
inline constexpr std::string_view kCommDestination = "comm_dst";
inline constexpr std::string_view kCommTag = "comm_tag";
inline constexpr std::string_view kTensorSize = "tensor_size";
inline constexpr std::string_view kGroupName = "pg_name";
inline constexpr std::string_view kStartNs = "start_ns";
inline constexpr std::string_view kDurationNs = "duration_ns";
inline constexpr std::string_view kOpClass = "op_class";

// Attribute of GlobalMetadata: the process groups as JSON, [{"pg_name": "1", "ranks": [0, 1]}]. In
// PyTorch's execution traces a node of metadata has them in its inputs, a list with that text.
inline constexpr std::string_view kGroups = "process_groups";

}  // namespace foretrain::chakra
