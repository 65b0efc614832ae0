"""Pages of lists."""

from rest_framework import pagination


class PageNumberPagination(pagination.PageNumberPagination):
    """`page` from 1, `page_size` from 1 to 500 (50 when not given)."""

    page_size_query_param = "page_size"
    max_page_size = 500
