#include "traces/import/chakra/chakra_nodes.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/json/json.h"
#include "base/text.h"
#include "traces/chakra/wire.h"
#include "traces/import/raw_events.h"

namespace foretrain::trace_import {
namespace {

using chakra::NodeType;

constexpr std::int64_t kMaxNodes = std::int64_t{1} << 24;
constexpr std::int64_t kMaxDependencies = std::int64_t{1} << 27;  // of all nodes together
constexpr std::uint64_t kMaxMessageBytes = std::uint64_t{64} << 20;
constexpr std::size_t kBufferBytes = std::size_t{1} << 18;
constexpr std::int64_t kNsPerUs = 1000;
constexpr std::int64_t kMaxBytes = std::int64_t{1} << 56;

// A number of any kind that AttributeProto has; bits of a sint are zigzag.
std::int64_t NumberOf(const WireField& field) {
  switch (field.number) {
    case chakra::kDouble: {
      const double value = std::bit_cast<double>(field.value);
      return value > -1e18 && value < 1e18 ? static_cast<std::int64_t>(value) : 0;
    }
    case chakra::kFloat: {
      const float value = std::bit_cast<float>(static_cast<std::uint32_t>(field.value));
      return value > -1e18F && value < 1e18F ? static_cast<std::int64_t>(value) : 0;
    }
    case chakra::kSint32:
    case chakra::kSint64:
      return static_cast<std::int64_t>(field.value >> 1 ^ (~(field.value & 1) + 1));
    case chakra::kSfixed32:
      return std::bit_cast<std::int32_t>(static_cast<std::uint32_t>(field.value));
    default:
      return static_cast<std::int64_t>(field.value);
  }
}

Result<void> ReadAttribute(std::string_view message, ChakraNode& node) {
  WireReader reader(message);
  std::string_view name, text;
  std::int64_t number = 0;
  while (true) {
    FT_ASSIGN(const std::optional<WireField> field, reader.Next());
    if (!field) break;
    if (field->number == chakra::kAttributeName) {
      name = field->bytes;
    } else if (field->number == chakra::kString) {
      text = field->bytes;
    } else if (field->type != WireType::kBytes) {
      number = NumberOf(*field);
    }
  }
  const bool is_size = name == chakra::kCommSize || name == chakra::kTensorSize;
  if (name == chakra::kIsCpuOp) node.on_host = number != 0;
  if (is_size && number > 0 && number <= kMaxBytes) node.bytes = number;
  if (name == chakra::kCommType) {
    const bool known = number >= 0 && number < std::ssize(chakra::kCollectiveNames);
    node.collective = known ? static_cast<int>(number) : 0;
  }
  if (name == chakra::kCommSource && number >= 0 && number <= kMaxChakraRank) node.source = number;
  if (name == chakra::kCommDestination && number >= 0 && number <= kMaxChakraRank) {
    node.destination = number;
  }
  if (name == chakra::kGroupName) {
    // Names are numbers, but some writers give them as such.
    node.group = text.empty() ? std::to_string(number) : Printable(text, 200);
  }
  if (name == chakra::kStartNs) node.start_ns = number;
  if (name == chakra::kDurationNs) node.duration_ns = number;
  if (name == chakra::kOpClass) node.op_class = Printable(text, 40);
  return {};
}

// Reads the graph.
class Reader {
 public:
  Reader(ByteSource& bytes, std::string_view path, const std::function<bool()>& go_on)
      : bytes_(bytes), path_(path), go_on_(go_on) {}

  Result<void> Read() {
    FT_ASSIGN(const std::optional<std::string> metadata, NextMessage());
    if (!metadata) return Bad("is empty");
    FT_TRY(ReadMetadata(*metadata));
    while (true) {
      const std::int64_t start = taken_;
      FT_ASSIGN(const std::optional<std::string> message, NextMessage());
      if (!message) return {};
      if (std::ssize(graph_.nodes) % 4096 == 0 && go_on_ && !go_on_()) {
        return Fail(ErrorCode::kAborted, "the import was stopped");
      }
      const Result<void> read = ReadNode(*message);
      if (!read.has_value()) {
        at_ = start;
        return Bad("has a node with " + read.error().message);
      }
      if (std::ssize(graph_.nodes) > kMaxNodes || dependencies_ > kMaxDependencies) {
        return Fail(ErrorCode::kResourceExhausted, Printable(path_, 512) + ": more than " +
                                                       std::to_string(kMaxNodes) + " nodes or " +
                                                       std::to_string(kMaxDependencies) +
                                                       " dependencies; import fewer steps");
      }
    }
  }

  ChakraGraph Take() { return std::move(graph_); }

 private:
  tl::unexpected<Error> Bad(const std::string& what) const {
    return Fail(ErrorCode::kCorruptInput, Printable(path_, 512) + ": byte " + std::to_string(at_) +
                                              ": " + what +
                                              "; an execution trace of Chakra (.et) is expected");
  }

  // Takes up to `size` bytes. Fewer: the file ends.
  Result<std::string> TakeBytes(std::size_t size) {
    std::string out;
    while (out.size() < size) {
      if (next_ == buffer_.size()) {
        buffer_.resize(kBufferBytes);
        FT_ASSIGN(const std::int64_t read, bytes_.Read(buffer_));
        buffer_.resize(static_cast<std::size_t>(read));
        next_ = 0;
        if (read == 0) break;
      }
      const std::size_t part = std::min(size - out.size(), buffer_.size() - next_);
      out.append(buffer_.data() + next_, part);
      next_ += part;
    }
    taken_ += std::ssize(out);
    return out;
  }

  // The next message; `nullopt` at the end, also at one that cuts a message.
  Result<std::optional<std::string>> NextMessage() {
    at_ = taken_;
    std::string length;
    do {
      FT_ASSIGN(const std::string byte, TakeBytes(1));
      if (byte.empty()) {
        if (!length.empty()) graph_.cut_at = taken_;
        return std::optional<std::string>();
      }
      length += byte;
    } while ((length.back() & 0x80) != 0 && length.size() < 10);
    std::string_view rest = length;
    const std::optional<std::uint64_t> size = TakeVarint(rest);
    if (!size) return Bad("a length of more than 10 bytes");
    if (*size > kMaxMessageBytes) {
      return Bad("a message of " + std::to_string(*size) + " bytes");
    }
    FT_ASSIGN(std::string message, TakeBytes(static_cast<std::size_t>(*size)));
    if (message.size() < *size) {
      graph_.cut_at = taken_;
      return std::optional<std::string>();
    }
    return std::optional(std::move(message));
  }

  Result<void> ReadMetadata(const std::string& message) {
    WireReader reader(message);
    while (true) {
      const auto field = reader.Next();
      if (!field.has_value()) return Bad("begins with " + field.error().message);
      if (!*field) return {};
      if ((*field)->number != chakra::kMetadataAttribute) continue;
      const Result<void> read = ReadMetadataAttribute((*field)->bytes);
      if (!read.has_value()) return Bad("begins with " + read.error().message);
    }
  }

  Result<void> ReadMetadataAttribute(std::string_view message) {
    WireReader reader(message);
    std::string_view name, text;
    while (true) {
      FT_ASSIGN(const std::optional<WireField> field, reader.Next());
      if (!field) break;
      if (field->number == chakra::kAttributeName) name = field->bytes;
      if (field->number == chakra::kString) text = field->bytes;
    }
    if (name == chakra::kGroups) AddGroups(text);
    return {};
  }

  Result<void> ReadNode(const std::string& message) {
    ChakraNode node;
    std::string_view inputs;
    WireReader reader(message);
    std::int64_t start_us = 0, duration_us = 0;
    while (true) {
      FT_ASSIGN(const std::optional<WireField> field, reader.Next());
      if (!field) break;
      switch (field->number) {
        case chakra::kId:
          node.id = field->value;
          break;
        case chakra::kName:
          node.name = field->bytes;
          break;
        case chakra::kType:
          if (field->value < chakra::kNodeTypeCount)
            node.type = static_cast<NodeType>(field->value);
          break;
        case chakra::kControlDependencies:
        case chakra::kDataDependencies:
          FT_TRY(ReadDependencies(*field, node));
          break;
        case chakra::kStartMicros:
          start_us = MicrosOf(field->value);
          break;
        case chakra::kDurationMicros:
          duration_us = MicrosOf(field->value);
          break;
        case chakra::kInputs:
          inputs = field->bytes;
          break;
        case chakra::kAttribute:
          FT_TRY(ReadAttribute(field->bytes, node));
          break;
        default:
          break;
      }
    }
    const auto usable = [](std::int64_t ns) { return ns > 0 && ns < kFarNs; };
    if (!usable(node.start_ns) && node.start_ns != 0) {
      node.start_ns = start_us > 0 ? start_us * kNsPerUs : -1;
    }
    if (!usable(node.duration_ns)) node.duration_ns = duration_us * kNsPerUs;
    if (node.type == NodeType::kMetadata) FT_TRY(ReadGroups(inputs));
    graph_.nodes.push_back(std::move(node));
    return {};
  }

  // Absurd times are none.
  static std::int64_t MicrosOf(std::uint64_t value) {
    constexpr auto kMax = static_cast<std::uint64_t>(kFarNs / kNsPerUs);
    return value < kMax * 1000 ? static_cast<std::int64_t>(value) : 0;
  }

  // Packed, as proto3 writes them, or one a field.
  Result<void> ReadDependencies(const WireField& field, ChakraNode& node) {
    std::vector<std::uint64_t>& dependencies =
        field.number == chakra::kDataDependencies ? node.dependencies : node.control;
    if (field.type != WireType::kBytes) {
      dependencies.push_back(field.value);
      ++dependencies_;
      return {};
    }
    std::string_view packed = field.bytes;
    while (!packed.empty()) {
      const std::optional<std::uint64_t> id = TakeVarint(packed);
      if (!id) return Fail(ErrorCode::kCorruptInput, "a dependency that is cut off");
      dependencies.push_back(*id);
      ++dependencies_;
    }
    return {};
  }

  // Lists of members by name. PyTorch writes a Python list of one text, which is JSON.
  Result<void> ReadGroups(std::string_view inputs) {
    WireReader reader(inputs);
    std::string_view text;
    while (true) {
      FT_ASSIGN(const std::optional<WireField> field, reader.Next());
      if (!field) break;
      if (field->number == chakra::kValues) text = field->bytes;
    }
    if (text.size() >= 4 && text.starts_with("['") && text.ends_with("']")) {
      AddGroups(text.substr(2, text.size() - 4));
    }
    return {};
  }

  // Text that is not of this form is left out: groups are a help, not needed.
  void AddGroups(std::string_view text) {
    const auto json = ParseJson(text, "process groups");
    if (!json.has_value() || json->kind() != JsonValue::Kind::kArray) return;
    for (const JsonValue& group : json->items()) {
      const JsonValue* const name = group.Find("pg_name");
      const JsonValue* const ranks = group.Find("ranks");
      if (name == nullptr || name->kind() != JsonValue::Kind::kString || ranks == nullptr) continue;
      std::string list;
      for (const JsonValue& rank : ranks->items()) {
        if (rank.kind() != JsonValue::Kind::kInteger) continue;
        list += (list.empty() ? "" : ", ") + std::to_string(rank.AsInteger());
      }
      if (!list.empty()) graph_.groups[Printable(name->AsString(), 200)] = "[" + list + "]";
    }
  }

  ByteSource& bytes_;
  const std::string_view path_;
  const std::function<bool()>& go_on_;
  ChakraGraph graph_;
  std::string buffer_;
  std::size_t next_ = 0;
  std::int64_t taken_ = 0, at_ = 0, dependencies_ = 0;
};

}  // namespace

Result<ChakraGraph> ReadChakraGraph(ByteSource& bytes, std::string_view path,
                                    const std::function<bool()>& go_on) {
  Reader reader(bytes, path, go_on);
  FT_TRY(reader.Read());
  return reader.Take();
}

}  // namespace foretrain::trace_import
