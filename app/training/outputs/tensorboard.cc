#include "app/training/outputs/tensorboard.h"

#include <bit>

#include "base/io/crc32c.h"

namespace foretrain {
namespace {

template <class Number>
void AppendLittleEndian(std::string& bytes, Number number) {
  for (std::size_t i = 0; i < sizeof(Number); ++i) {
    bytes.push_back(static_cast<char>(number >> (8 * i) & 0xff));
  }
}

// A CRC of data that holds CRCs is weak, so TFRecords store it rotated by 15 bits plus a constant.
std::uint32_t MaskedCrc(std::string_view bytes) {
  return std::rotr(Crc32c(bytes), 15) + 0xa282ead8U;
}

// Protobuf's wire format: a varint has seven bits a byte, lowest first, and a bit that says whether
// more follow. A field starts with the varint (number << 3 | type).
enum class WireType : std::uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

void AppendVarint(std::string& message, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) message.push_back(static_cast<char>((value & 0x7f) | 0x80));
  message.push_back(static_cast<char>(value));
}
void AppendTag(std::string& message, unsigned field, WireType type) {
  AppendVarint(message, field << 3 | static_cast<unsigned>(type));
}
void AppendBytes(std::string& message, unsigned field, std::string_view bytes) {
  AppendTag(message, field, WireType::kBytes);
  AppendVarint(message, bytes.size());
  message += bytes;
}
void AppendDouble(std::string& message, unsigned field, double value) {
  AppendTag(message, field, WireType::kFixed64);
  AppendLittleEndian(message, std::bit_cast<std::uint64_t>(value));
}
void AppendFloat(std::string& message, unsigned field, float value) {
  AppendTag(message, field, WireType::kFixed32);
  AppendLittleEndian(message, std::bit_cast<std::uint32_t>(value));
}

// Field numbers of Event, Summary and Summary.Value.
constexpr unsigned kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5;
constexpr unsigned kValue = 1;
constexpr unsigned kTag = 1, kSimpleValue = 2;

}  // namespace

std::string TfRecord(std::string_view data) {
  std::string record;
  AppendLittleEndian(record, static_cast<std::uint64_t>(data.size()));
  AppendLittleEndian(record, MaskedCrc(record));
  record += data;
  AppendLittleEndian(record, MaskedCrc(data));
  return record;
}

std::string TensorBoardHeader(double time_s) {
  std::string event;
  AppendDouble(event, kWallTime, time_s);
  AppendBytes(event, kFileVersion, "brain.Event:2");
  return TfRecord(event);
}

std::string TensorBoardStep(double time_s, std::int64_t step,
                            std::span<const TensorBoardScalar> scalars) {
  std::string summary;
  for (const TensorBoardScalar& scalar : scalars) {
    std::string value;
    AppendBytes(value, kTag, scalar.tag);
    AppendFloat(value, kSimpleValue, scalar.value);
    AppendBytes(summary, kValue, value);
  }
  std::string event;
  AppendDouble(event, kWallTime, time_s);
  AppendTag(event, kStep, WireType::kVarint);
  AppendVarint(event, static_cast<std::uint64_t>(step));
  AppendBytes(event, kSummary, summary);
  return TfRecord(event);
}

}  // namespace foretrain
