#include "runtime/data/documents.h"

#include <algorithm>
#include <utility>

#include "base/json/json.h"
#include "base/text.h"
#include "base/units.h"

namespace foretrain {
namespace {

constexpr std::int64_t kMaxTextBytes = 8 * kGiB;
constexpr std::int64_t kMaxLineBytes = kGiB;
constexpr std::int64_t kPartBytes = 16 * kMiB;

}  // namespace

// The end of a piece that is no whole line goes before the next piece.
Result<void> ReadDocuments(FileSystem& files, const std::string& path,
                           const std::function<Result<void>(const DocumentPart&)>& take) {
  if (!path.ends_with(".jsonl")) {
    FT_ASSIGN(std::string text, ReadFile(files, path, kMaxTextBytes));
    const std::int64_t bytes = std::ssize(text);
    DocumentPart part{.bytes = bytes};
    part.documents.push_back(std::move(text));
    return take(part);
  }
  FT_ASSIGN(const auto file, files.Open(path));
  std::string rest;
  std::int64_t line = 1, offset = 0;
  for (bool ended = false; !ended;) {
    const std::size_t old = rest.size();
    rest.resize(old + kPartBytes);
    FT_ASSIGN(const std::int64_t got,
              file->ReadAt(offset, std::as_writable_bytes(std::span(rest)).subspan(old)));
    rest.resize(old + static_cast<std::size_t>(got));
    offset += got;
    ended = got < kPartBytes;
    const std::size_t last = rest.rfind('\n');
    if (!ended && last == std::string::npos && std::ssize(rest) > kMaxLineBytes) {
      return Fail(ErrorCode::kInvalidArgument, path + ", line " + std::to_string(line) +
                                                   ": is longer than " +
                                                   FormatBytes(kMaxLineBytes));
    }
    const std::size_t whole = ended ? rest.size() : last == std::string::npos ? 0 : last + 1;
    DocumentPart part{.first_line = line, .bytes = got};
    for (std::size_t at = 0; at < whole;) {
      const std::size_t end = std::min(rest.find('\n', at), whole);
      part.documents.push_back(rest.substr(at, end - at));
      at = end + 1;
      ++line;
    }
    rest.erase(0, whole);
    FT_TRY(take(part));
  }
  return {};
}

Result<std::string> TextOfLine(std::string_view line, const std::string& field,
                               const std::string& where) {
  FT_ASSIGN(const JsonValue value, ParseJson(line, where));
  const JsonValue* const found =
      value.kind() == JsonValue::Kind::kObject ? value.Find(field) : nullptr;
  if (found != nullptr && found->kind() == JsonValue::Kind::kString) return found->AsString();
  return Fail(ErrorCode::kCorruptInput,
              where + ": has no text called \"" + Printable(field) + "\"; give --field NAME");
}

}  // namespace foretrain
