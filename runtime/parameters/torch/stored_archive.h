// Lists the members of a ZIP archive that are stored without compression, as torch.save writes
// them. Leaves out what they hold: pickled_tensor.h.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/io/file_system.h"
#include "base/result.h"

namespace foretrain {

// A part of a file.
struct FilePart {
  std::int64_t begin = 0, bytes = 0;
};

struct ArchiveMember {
  std::string name;
  FilePart data;  // in the file, not in the archive
};

// Lists the archive that `part` of `file` is, in the order of its directory. `source` names it in
// messages. Format: PKWARE's APPNOTE.TXT 6.3, sections 4.3 and 4.5.3 (64-bit sizes).
//
// Errors: those of reading; kCorruptInput: no archive, more than 4,096 members, a directory of more
// than 1 MiB, or a member outside of the archive; kUnsupported: a member that is compressed or
// encrypted.
Result<std::vector<ArchiveMember>> ListArchive(ReadableFile& file, FilePart part,
                                               std::string_view source);

// The bytes of `part`. Errors: those of reading; kCorruptInput: it does not lie in the file, or has
// more than `max_bytes`.
Result<std::string> ReadPart(ReadableFile& file, FilePart part, std::int64_t max_bytes,
                             std::string_view source);

}  // namespace foretrain
