# The page: web/dist, committed in its built form, as C arrays, plain and gzipped.  Sets WEB_C.
find_program(GZIP gzip REQUIRED)
set(WEB_C ${PROJECT_BINARY_DIR}/embedded/web.c)
set(web_files index.html:asset_index app.js:asset_app_js app.css:asset_app_css icon.svg:asset_icon)
set(web_list)
set(web_sources)
set(web_gzip)
foreach(entry ${web_files})
  string(REPLACE ":" ";" parts ${entry})
  list(GET parts 0 file)
  list(GET parts 1 symbol)
  set(source ${PROJECT_SOURCE_DIR}/web/dist/${file})
  set(packed ${PROJECT_BINARY_DIR}/embedded/${file}.gz)
  list(APPEND web_sources ${source})
  list(APPEND web_gzip COMMAND sh -c "'${GZIP}' -9nc '${source}' > '${packed}'")
  list(APPEND web_list "${source}:dtri_${symbol}" "${packed}:dtri_${symbol}_gz")
endforeach()
add_custom_command(
  OUTPUT ${WEB_C}
  ${web_gzip}
  COMMAND ${CMAKE_COMMAND} -DOUTPUT=${WEB_C} "-DFILES=${web_list}"
          -P ${PROJECT_SOURCE_DIR}/cmake/embed.cmake
  DEPENDS ${web_sources} ${PROJECT_SOURCE_DIR}/cmake/embed.cmake
  VERBATIM)
