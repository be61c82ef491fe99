#include "runtime/parameters/torch/stored_archive.h"

#include <algorithm>
#include <span>

#include "base/text.h"
#include "base/units.h"

namespace foretrain {
namespace {

constexpr std::int64_t kMaxDirectoryBytes = kMiB;
constexpr std::int64_t kMaxMembers = 4096;

// Signatures and sizes of records without their names and comments.
constexpr std::uint32_t kEndMark = 0x06054b50, kEnd64Mark = 0x06064b50, kLocatorMark = 0x07064b50,
                        kEntryMark = 0x02014b50, kLocalMark = 0x04034b50;
constexpr std::int64_t kEndBytes = 22, kEnd64Bytes = 56, kLocatorBytes = 20, kEntryBytes = 46,
                       kLocalBytes = 30;
constexpr std::size_t kNameAt = kEntryBytes;  // in a directory's entry
constexpr std::int64_t kMaxCommentBytes = 0xffff;
constexpr std::uint64_t kIn64Bits = 0xffffffff;  // the value is in the field of 64-bit sizes
constexpr std::uint64_t kField64 = 1;            // tag of that field

// The little-endian number of `size` bytes at `at`; 0 past the end.
std::uint64_t Number(std::string_view bytes, std::int64_t at, int size) {
  std::uint64_t number = 0;
  for (int i = 0; i < size && at + i < std::ssize(bytes); ++i) {
    const auto byte = static_cast<unsigned char>(bytes[static_cast<std::size_t>(at + i)]);
    number |= std::uint64_t{byte} << (8 * i);
  }
  return number;
}

class ArchiveReader {
 public:
  ArchiveReader(ReadableFile& file, FilePart part, std::string_view source)
      : file_(file), part_(part), source_(source) {}

  Result<std::vector<ArchiveMember>> List() {
    FT_ASSIGN(const std::string directory, Directory());
    std::vector<ArchiveMember> members;
    std::int64_t at = 0;
    while (at + kEntryBytes <= std::ssize(directory) && Number(directory, at, 4) == kEntryMark) {
      if (std::ssize(members) == kMaxMembers) return Bad("has too many members");
      const auto name = static_cast<std::int64_t>(Number(directory, at + 28, 2));
      const auto extra = static_cast<std::int64_t>(Number(directory, at + 30, 2));
      const auto comment = static_cast<std::int64_t>(Number(directory, at + 32, 2));
      const std::int64_t next = at + kEntryBytes + name + extra + comment;
      if (next > std::ssize(directory)) return Bad("has a directory that is cut off");
      const std::string_view entry(directory.data() + at, static_cast<std::size_t>(next - at));
      FT_ASSIGN(ArchiveMember member,
                Member(entry, static_cast<std::size_t>(name), static_cast<std::size_t>(extra)));
      members.push_back(std::move(member));
      at = next;
    }
    if (at != std::ssize(directory)) return Bad("has a damaged directory");
    return members;
  }

 private:
  tl::unexpected<Error> Bad(std::string_view what) const {
    return Fail(ErrorCode::kCorruptInput, Printable(source_, 512) + ": the archive at byte " +
                                              std::to_string(part_.begin) + " " +
                                              std::string(what));
  }

  // Bytes [at, at + bytes) of the archive.
  Result<std::string> Read(std::uint64_t at, std::uint64_t bytes, std::int64_t max_bytes) const {
    const auto all = static_cast<std::uint64_t>(part_.bytes);
    if (at > all || bytes > all - at) return Bad("is cut off");
    return ReadPart(file_,
                    {part_.begin + static_cast<std::int64_t>(at), static_cast<std::int64_t>(bytes)},
                    max_bytes, source_);
  }

  // The end record is the last of the archive but for a comment.
  Result<std::string> Directory() {
    const std::int64_t tail_bytes =
        std::min(part_.bytes, kEndBytes + kMaxCommentBytes + kLocatorBytes);
    const std::int64_t tail_begin = part_.bytes - tail_bytes;
    FT_ASSIGN(const std::string tail,
              Read(static_cast<std::uint64_t>(std::max<std::int64_t>(0, tail_begin)),
                   static_cast<std::uint64_t>(std::max<std::int64_t>(0, tail_bytes)), kMiB));
    std::int64_t end = std::ssize(tail) - kEndBytes;
    while (end >= 0 && Number(tail, end, 4) != kEndMark) --end;
    if (end < 0) return Bad("has no end: torch.save was stopped, or this is another format");
    std::uint64_t bytes = Number(tail, end + 12, 4), begin = Number(tail, end + 16, 4);
    const std::int64_t locator = end - kLocatorBytes;
    if (locator >= 0 && Number(tail, locator, 4) == kLocatorMark) {
      FT_ASSIGN(const std::string end64,
                Read(Number(tail, locator + 8, 8), kEnd64Bytes, kEnd64Bytes));
      if (Number(end64, 0, 4) != kEnd64Mark) return Bad("has a damaged end");
      bytes = Number(end64, 40, 8);
      begin = Number(end64, 48, 8);
    }
    return Read(begin, bytes, kMaxDirectoryBytes);
  }

  // `name` and `extra`: bytes of these parts of the directory's entry.
  Result<ArchiveMember> Member(std::string_view entry, std::size_t name, std::size_t extra) {
    ArchiveMember member{.name = std::string(entry.substr(kNameAt, name)), .data = {}};
    const bool encrypted = (Number(entry, 8, 2) & 1) != 0;
    if (encrypted || Number(entry, 10, 2) != 0) {
      return Fail(ErrorCode::kUnsupported, Printable(source_, 512) + ": " + Printable(member.name) +
                                               ": is compressed or encrypted; torch.save stores "
                                               "its members as they are");
    }
    const std::uint64_t packed = Number(entry, 20, 4), unpacked = Number(entry, 24, 4);
    std::uint64_t bytes = unpacked, local = Number(entry, 42, 4);
    // The field of 64-bit sizes has those values, in this order, that do not fit into 32 bits.
    const std::string_view fields = entry.substr(kNameAt + name, extra);
    for (std::int64_t at = 0; at + 4 <= std::ssize(fields);) {
      const auto size = static_cast<std::int64_t>(Number(fields, at + 2, 2));
      if (Number(fields, at, 2) == kField64) {
        std::int64_t value = at + 4;
        for (const auto& [narrow, wide] :
             {std::pair{unpacked, &bytes}, {packed, &bytes}, {Number(entry, 42, 4), &local}}) {
          if (narrow != kIn64Bits) continue;
          *wide = Number(fields, value, 8);
          value += 8;
        }
      }
      at += 4 + size;
    }
    FT_ASSIGN(const std::string header, Read(local, kLocalBytes, kLocalBytes));
    if (Number(header, 0, 4) != kLocalMark) return Bad("has a damaged member");
    const std::uint64_t data = local + kLocalBytes + Number(header, 26, 2) + Number(header, 28, 2);
    const auto all = static_cast<std::uint64_t>(part_.bytes);
    if (data > all || bytes > all - data) return Bad("is cut off");
    member.data = {part_.begin + static_cast<std::int64_t>(data), static_cast<std::int64_t>(bytes)};
    return member;
  }

  ReadableFile& file_;
  const FilePart part_;
  const std::string_view source_;
};

}  // namespace

Result<std::vector<ArchiveMember>> ListArchive(ReadableFile& file, FilePart part,
                                               std::string_view source) {
  return ArchiveReader(file, part, source).List();
}

Result<std::string> ReadPart(ReadableFile& file, FilePart part, std::int64_t max_bytes,
                             std::string_view source) {
  const std::int64_t size = file.size_bytes();
  const auto bad = [&](std::string_view what) {
    return Fail(ErrorCode::kCorruptInput, Printable(source, 512) + ": byte " +
                                              std::to_string(part.begin) + ": " +
                                              std::string(what) + "; copy it again");
  };
  if (part.begin < 0 || part.bytes < 0 || part.begin > size || part.bytes > size - part.begin) {
    return bad("the file is cut off");
  }
  if (part.bytes > max_bytes) return bad("the file is damaged: a part of it is too long");
  std::string bytes(static_cast<std::size_t>(part.bytes), '\0');
  FT_ASSIGN(const std::int64_t got,
            file.ReadAt(part.begin, std::as_writable_bytes(std::span(bytes))));
  if (got != part.bytes) return bad("the file has become shorter");
  return bytes;
}

}  // namespace foretrain
