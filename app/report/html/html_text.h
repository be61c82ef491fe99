// Texts of an HTML page: tables, and data that a script of the page reads.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace foretrain {

// JSON as the content of a script element: "<" becomes an escape of JSON, so that no text of the
// data can end the element.
std::string EscapedJson(std::string_view json);

// A table with one heading a column. A title that starts with ">" aligns its column to the right,
// as in base/table.h. Missing cells are empty. "" without rows.
std::string HtmlTable(const std::vector<std::string>& titles,
                      const std::vector<std::vector<std::string>>& rows);

}  // namespace foretrain
