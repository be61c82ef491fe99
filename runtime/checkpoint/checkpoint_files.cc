#include "runtime/checkpoint/checkpoint_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>
#include <utility>

#include "base/hash.h"
#include "base/io/crc32c.h"
#include "base/json/json.h"
#include "sim/config/model/model_json.h"
#include "sim/config/plan/plan_json.h"

namespace foretrain {
namespace {

constexpr std::int64_t kSchema = 1;
constexpr std::int64_t kMaxElements = std::int64_t{1} << 50;
constexpr std::int64_t kMaxTimeNs = INT64_MAX / 4;  // sums of three do not overflow
constexpr double kMaxLoss = std::numeric_limits<float>::max();
constexpr JsonLimits kLimits{.max_bytes = std::int64_t{1} << 30,
                             .max_values = std::int64_t{1} << 26};
// `{"crc32c":"01234567",`: what follows is what the checksum covers.
constexpr std::string_view kSumStart = "{\"crc32c\":\"";
constexpr std::size_t kSumLength = kSumStart.size() + 8 + 2;

// Numbers of a piece in RankFileText, in order.
constexpr std::size_t kPieceNumbers = 13;

std::string HexOf(std::uint32_t crc) { return fmt::format("{:08x}", crc); }

std::string WithSum(const std::string& object) {
  const std::string rest = object.substr(1);
  return std::string(kSumStart) + HexOf(Crc32c(rest)) + "\"," + rest + "\n";
}

Result<JsonValue> ParseWithSum(std::string_view text, std::string_view source) {
  if (!text.empty() && text.back() == '\n') text.remove_suffix(1);
  const bool begins = text.size() > kSumLength && text.starts_with(kSumStart);
  if (!begins || text.substr(kSumStart.size(), 8) != HexOf(Crc32c(text.substr(kSumLength)))) {
    return Fail(ErrorCode::kCorruptInput,
                std::string(source) + ": its checksum is wrong; the file is damaged or cut short");
  }
  return ParseJson("{" + std::string(text.substr(kSumLength)), source, kLimits);
}

std::optional<std::uint64_t> ParseHex(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::uint64_t ReadHash(JsonFields& fields, std::string_view name) {
  const auto value = ParseHex(fields.String(name, 16));
  if (!value) fields.Refuse(name, "is no hexadecimal number");
  return value.value_or(0);
}

void CheckSchema(JsonFields& fields) {
  if (const std::int64_t schema = fields.Integer("schema", 1, 1 << 20); schema > kSchema) {
    fields.Refuse("schema", fmt::format("is {}, newer than this foretrain's {}; use a newer one",
                                        schema, kSchema));
  }
}

void WriteTime(JsonWriter& writer, const TrainingTime& time) {
  writer.Name("time").BeginObject().Field("began_unix_ns", time.began_unix_ns);
  writer.Field("paused_ns", time.paused_ns).Field("steps_ns", time.steps_ns);
  writer.Field("saved_unix_ns", time.saved_unix_ns).Field("ended", time.ended).EndObject();
}

TrainingTime ReadTime(JsonFields& fields) {
  TrainingTime time;
  time.began_unix_ns = fields.Integer("began_unix_ns", 0, kMaxTimeNs);
  time.paused_ns = fields.Integer("paused_ns", 0, kMaxTimeNs);
  time.steps_ns = fields.Integer("steps_ns", 0, kMaxTimeNs);
  time.saved_unix_ns = fields.Integer("saved_unix_ns", 0, kMaxTimeNs);
  time.ended = fields.Bool("ended");
  return time;
}

template <class Kind>
std::optional<Kind> ParseKind(std::string_view name, int count) {
  for (int i = 0; i < count; ++i) {
    if (Name(static_cast<Kind>(i)) == name) return static_cast<Kind>(i);
  }
  return std::nullopt;
}

bool IsStorable(NumberFormat format) {
  return format == NumberFormat::kFp32 || format == NumberFormat::kBf16 ||
         format == NumberFormat::kFp16 || format == NumberFormat::kInt8 ||
         format == NumberFormat::kByte;
}

// Whether the numbers of a piece agree with each other, so that copies of its parts stay in bounds.
bool IsSound(const SavedPiece& saved) {
  const StatePiece& piece = saved.piece;
  if (piece.row_begin > piece.row_end || piece.row_end > piece.rows ||
      piece.col_begin > piece.col_end || piece.col_end > piece.cols) {
    return false;
  }
  const std::int64_t rows = piece.row_end - piece.row_begin;
  const std::int64_t cols = piece.col_end - piece.col_begin;
  if (cols > 0 && rows > kMaxElements / cols) return false;
  if (piece.first >= piece.end || piece.end > rows * cols) return false;
  if (!IsStorable(piece.format)) return false;
  const std::int64_t elements = piece.elements();
  if (piece.format != NumberFormat::kInt8) {
    return saved.data_bytes == BytesIn(piece.format, elements) && saved.scale_bytes == 0;
  }
  const std::int64_t codes = piece.scale_skip + elements;
  return piece.scale_skip < kScaleBlock && saved.data_bytes == elements &&
         saved.scale_bytes == (codes + kScaleBlock - 1) / kScaleBlock * 4;
}

Result<SavedPiece> ReadPiece(JsonFields& fields) {
  SavedPiece saved;
  StatePiece& piece = saved.piece;
  const std::string kind_name = fields.String("kind", 16);
  const auto kind = ParseKind<StateKind>(kind_name, kStateKindCount);
  if (!kind) fields.Refuse("kind", "is \"" + kind_name + "\", which is no kind of state");
  const std::string format_name = fields.String("format", 16);
  const auto format = ParseKind<NumberFormat>(format_name, kNumberFormatCount);
  if (!format) fields.Refuse("format", "is \"" + format_name + "\", which is no format");
  piece.name = fields.String("name", 1024);
  const std::vector<std::int64_t> numbers = fields.Integers("numbers", 0, kMaxElements);
  if (numbers.size() != kPieceNumbers) {
    fields.Refuse("numbers", fmt::format("has {} instead of {}", numbers.size(), kPieceNumbers));
  }
  FT_TRY(fields.Finish());
  piece.kind = *kind;
  piece.format = *format;
  std::int64_t crc = 0;
  std::size_t next = 0;
  for (std::int64_t* to :
       {&piece.rows, &piece.cols, &piece.row_begin, &piece.row_end, &piece.col_begin,
        &piece.col_end, &piece.first, &piece.end, &piece.scale_skip, &saved.begin,
        &saved.data_bytes, &saved.scale_bytes, &crc}) {
    *to = numbers[next++];
  }
  saved.crc = static_cast<std::uint32_t>(crc);
  if (crc > UINT32_MAX || !IsSound(saved)) {
    return Fail(ErrorCode::kCorruptInput,
                fields.Where() + ": the numbers of " + piece.name + " contradict each other");
  }
  return saved;
}

// safetensors' name of the format. 8-bit codes and buffers are bytes to it.
const char* TypeName(NumberFormat format) {
  if (format == NumberFormat::kFp32) return "F32";
  if (format == NumberFormat::kBf16) return "BF16";
  return format == NumberFormat::kFp16 ? "F16" : "U8";
}

// "weight/layers.3.mlp.up.weight[rows 0:64]". Parts are named because a rank may hold several.
std::string NameInHeader(const StatePiece& piece) {
  std::string part;
  const auto add = [&part](const char* what, std::int64_t begin, std::int64_t end) {
    part += fmt::format("{}{} {}:{}", part.empty() ? "" : ", ", what, begin, end);
  };
  const std::int64_t rows = piece.row_end - piece.row_begin;
  const std::int64_t cols = piece.col_end - piece.col_begin;
  if (rows < piece.rows) add("rows", piece.row_begin, piece.row_end);
  if (cols < piece.cols) add("cols", piece.col_begin, piece.col_end);
  if (piece.elements() < rows * cols) add("elements", piece.first, piece.end);
  const std::string name = std::string(Name(piece.kind)) + "/" + piece.name;
  return part.empty() ? name : name + "[" + part + "]";
}

void WriteTensor(JsonWriter& writer, const std::string& name, const char* type,
                 std::span<const std::int64_t> shape, std::int64_t begin, std::int64_t bytes) {
  writer.Name(name).BeginObject().Field("dtype", type).Name("shape").BeginArray();
  for (const std::int64_t size : shape) writer.Integer(size);
  writer.EndArray().Name("data_offsets").BeginArray().Integer(begin).Integer(begin + bytes);
  writer.EndArray().EndObject();
}

}  // namespace

TrainingTime ContinuedTime(TrainingTime saved, std::int64_t now_unix_ns) {
  if (saved.ended) {
    saved.paused_ns += std::max<std::int64_t>(0, now_unix_ns - saved.saved_unix_ns);
  }
  saved.ended = false;
  return saved;
}

double GoodputOf(const TrainingTime& time, std::int64_t now_unix_ns) {
  const std::int64_t all_ns = now_unix_ns - time.began_unix_ns - time.paused_ns;
  if (time.began_unix_ns == 0 || all_ns <= 0) return 0;
  return std::min(1.0, static_cast<double>(time.steps_ns) / static_cast<double>(all_ns));
}

std::string TensorsName(int rank) { return fmt::format("rank-{:05}.safetensors", rank); }
std::string IndexName(int rank) { return fmt::format("rank-{:05}.json", rank); }

std::string ManifestText(const Manifest& manifest) {
  JsonWriter writer;
  writer.BeginObject().Field("schema", kSchema).Field("step", manifest.step);
  writer.Field("program", HexText(manifest.program));
  writer.Field("seed", HexText(manifest.seed)).Field("data", HexText(manifest.data));
  WriteTime(writer, manifest.time);
  writer.Name("losses").BeginArray();
  for (const double loss : manifest.losses) writer.Number(loss);
  writer.EndArray();
  writer.Field("version", manifest.version).Name("indexes").BeginArray();
  for (const std::uint32_t crc : manifest.indexes) writer.String(HexOf(crc));
  writer.EndArray();
  writer.Field("arguments", std::span<const std::string>(manifest.arguments));
  WriteJson(writer.Name("model"), manifest.model);
  WriteJson(writer.Name("plan"), manifest.plan);
  return WithSum(writer.EndObject().Take());
}

Result<Manifest> ParseManifest(std::string_view text, std::string_view source) {
  FT_ASSIGN(const JsonValue value, ParseWithSum(text, source));
  JsonFields fields(value, source);
  CheckSchema(fields);
  Manifest manifest;
  manifest.step = fields.Integer("step", 0, std::int64_t{1} << 50);
  manifest.program = ReadHash(fields, "program");
  manifest.seed = ReadHash(fields, "seed");
  manifest.data = ReadHash(fields, "data");
  if (auto time = fields.ObjectOr("time")) {
    manifest.time = ReadTime(*time);
    FT_TRY(time->Finish());
  }
  if (fields.Has("losses")) manifest.losses = fields.Numbers("losses", -kMaxLoss, kMaxLoss);
  manifest.version = fields.String("version");
  for (const std::string& crc_text : fields.Strings("indexes", 8)) {
    const auto crc = ParseHex(crc_text);
    if (!crc) fields.Refuse("indexes", "has \"" + crc_text + "\", which is no checksum");
    manifest.indexes.push_back(static_cast<std::uint32_t>(crc.value_or(0)));
  }
  manifest.arguments = fields.Strings("arguments");
  JsonFields model = fields.Object("model"), plan = fields.Object("plan");
  if (!fields.ok()) FT_TRY(fields.Finish());
  FT_ASSIGN(manifest.model, ReadModel(model));
  FT_ASSIGN(manifest.plan, ReadPlan(plan));
  FT_TRY(fields.Finish());
  return manifest;
}

std::string RankFileText(const RankFile& file) {
  JsonWriter writer;
  writer.BeginObject().Field("schema", kSchema).Field("rank", file.rank);
  writer.Field("bytes", file.bytes).Field("header_bytes", file.header_bytes);
  writer.Field("header_crc32c", HexOf(file.header_crc)).Name("pieces").BeginArray();
  for (const SavedPiece& saved : file.pieces) {
    const StatePiece& piece = saved.piece;
    writer.BeginObject().Field("kind", Name(piece.kind)).Field("name", piece.name);
    writer.Field("format", Name(piece.format)).Name("numbers").BeginArray();
    for (const std::int64_t number :
         {piece.rows, piece.cols, piece.row_begin, piece.row_end, piece.col_begin, piece.col_end,
          piece.first, piece.end, piece.scale_skip, saved.begin, saved.data_bytes,
          saved.scale_bytes, std::int64_t{saved.crc}}) {
      writer.Integer(number);
    }
    writer.EndArray().EndObject();
  }
  return WithSum(writer.EndArray().EndObject().Take());
}

Result<RankFile> ParseRankFile(std::string_view text, std::string_view source) {
  FT_ASSIGN(const JsonValue value, ParseWithSum(text, source));
  JsonFields fields(value, source);
  CheckSchema(fields);
  RankFile file;
  file.rank = static_cast<int>(fields.Integer("rank", 0, 1 << 20));
  file.bytes = fields.Integer("bytes", 8, std::int64_t{1} << 56);
  file.header_bytes = fields.Integer("header_bytes", 8, std::int64_t{1} << 40);
  const auto crc = ParseHex(fields.String("header_crc32c", 8));
  if (!crc) fields.Refuse("header_crc32c", "is no hexadecimal number");
  file.header_crc = static_cast<std::uint32_t>(crc.value_or(0));
  std::int64_t at = file.header_bytes;
  for (JsonFields& one : fields.Objects("pieces")) {
    FT_ASSIGN(SavedPiece saved, ReadPiece(one));
    if (saved.begin != at || saved.bytes() > file.bytes - at) {
      return Fail(ErrorCode::kCorruptInput, one.Where() + ": " + saved.piece.name +
                                                " does not follow the piece before it in the file");
    }
    at += saved.bytes();
    file.pieces.push_back(std::move(saved));
  }
  if (at != file.bytes) fields.Refuse("bytes", "is not the end of the last piece");
  FT_TRY(fields.Finish());
  return file;
}

// Offsets count from the end of the header. The JSON is padded with spaces to a multiple of 8
// bytes, so that tensors are aligned.
std::string TensorsHeader(const std::vector<SavedPiece>& pieces) {
  JsonWriter writer;
  writer.BeginObject();
  writer.Name("__metadata__").BeginObject().Field("format", "foretrain checkpoint").EndObject();
  std::int64_t at = 0;
  for (const SavedPiece& saved : pieces) {
    const StatePiece& piece = saved.piece;
    const std::int64_t rows = piece.row_end - piece.row_begin;
    const std::int64_t cols = piece.col_end - piece.col_begin;
    const bool whole = piece.elements() == rows * cols && piece.rows > 1;
    const std::string name = NameInHeader(piece);
    const std::vector<std::int64_t> shape =
        whole ? std::vector{rows, cols} : std::vector{piece.elements()};
    WriteTensor(writer, name, TypeName(piece.format), shape, at, saved.data_bytes);
    at += saved.data_bytes;
    if (saved.scale_bytes == 0) continue;
    WriteTensor(writer, name + "/scales", "F32", std::vector{saved.scale_bytes / 4}, at,
                saved.scale_bytes);
    at += saved.scale_bytes;
  }
  std::string json = writer.EndObject().Take();
  json.resize((json.size() + 7) / 8 * 8, ' ');
  const auto length = static_cast<std::uint64_t>(json.size());
  std::string header(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) header[i] = static_cast<char>(length >> (8 * i) & 0xff);
  return header + json;
}

}  // namespace foretrain
