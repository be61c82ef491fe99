// Documents of text files, read piece by piece: a text is one document, each line of a .jsonl file
// is one.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/io/file_system.h"
#include "base/result.h"

namespace foretrain {

struct DocumentPart {
  std::vector<std::string> documents{};  // texts, or lines of JSON
  std::int64_t first_line = 0;           // number of the first line, from 1; 0: a text
  std::int64_t bytes = 0;                // read for them
};

// Calls `take` with the documents of the file, in order. Lines come in parts of about 16 MiB; empty
// ones are kept. Errors: those of reading and of `take`; kInvalidArgument, a text of more than 8
// GiB, or a line of more than 1 GiB.
Result<void> ReadDocuments(FileSystem& files, const std::string& path,
                           const std::function<Result<void>(const DocumentPart&)>& take);

// The text in `field` of a line of JSON. `where` names file and line in
// messages. Errors: kCorruptInput, the line is no JSON object or has no text of this name.
Result<std::string> TextOfLine(std::string_view line, const std::string& field,
                               const std::string& where);

}  // namespace foretrain
