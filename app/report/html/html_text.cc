#include "app/report/html/html_text.h"

#include "base/markup.h"

namespace foretrain {

std::string EscapedJson(std::string_view json) {
  std::string out;
  out.reserve(json.size());
  for (const char c : json) {
    if (c == '<') {
      out += "\\u003c";
    } else {
      out += c;
    }
  }
  return out;
}

std::string HtmlTable(const std::vector<std::string>& titles,
                      const std::vector<std::vector<std::string>>& rows) {
  if (rows.empty()) return "";
  std::vector<bool> right;
  std::string out = "<div class=\"scroll\"><table>\n<thead><tr>";
  for (const std::string& title : titles) {
    right.push_back(title.starts_with('>'));
    out += std::string("<th scope=\"col\"") + (right.back() ? " class=\"number\">" : ">") +
           EscapedMarkup(title.substr(right.back() ? 1 : 0)) + "</th>";
  }
  out += "</tr></thead>\n<tbody>\n";
  for (const std::vector<std::string>& row : rows) {
    out += "<tr>";
    for (std::size_t i = 0; i < titles.size(); ++i) {
      out += right[i] ? "<td class=\"number\">" : "<td>";
      out += (i < row.size() ? EscapedMarkup(row[i]) : "") + "</td>";
    }
    out += "</tr>\n";
  }
  return out + "</tbody></table></div>\n";
}

}  // namespace foretrain
